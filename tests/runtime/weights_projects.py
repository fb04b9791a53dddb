"""Projects with a weights.toml, a cache of their own, and a server to take weights from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpu_repo_runtime.weights import cli

from tests.runtime.weights_server import REPOSITORY, Files, serving

LARGE = bytes(range(256)) * 12_000  # 3 MB
Project = Callable[..., Path]


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's cache and login out, and wait for nothing."""
    for name in [name for name in os.environ if name.startswith(("HF_", "WEIGHTS"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("gpu_repo_runtime.weights.web.PAUSES_S", (0, 0, 0))


@pytest.fixture
def web() -> Iterator[Files]:
    with serving() as files:
        yield files


@pytest.fixture
def project(own_cache: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a function that makes a repository with a weights.toml, goes there, and returns it."""

    def make(text: str, **files: bytes) -> Path:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        (folder / "weights.toml").write_text(text)
        for name, content in files.items():
            place = folder / name.replace("__", "/").replace("_dot_", ".")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        monkeypatch.chdir(folder)
        return folder

    return make


def done(*arguments: object, code: int = 0) -> None:
    assert cli.main([*map(str, arguments)]) == code, arguments


def fetched(capsys: pytest.CaptureFixture[str]) -> Path:
    """Fetch, and return the folder."""
    capsys.readouterr()
    done("fetch", "--print")
    return Path(capsys.readouterr().out.strip())


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder but the lock."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name != "weights.lock"}


FOLDER = '[words]\nsource = "stored"\nfiles = ["*.bin"]\n'
HUB = f'[encoder]\nsource = "hf://{REPOSITORY}"\nrevision = "main"\nfiles = ["*.json", "model.bin"]\n'
