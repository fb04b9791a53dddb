"""The commands of the documentation do what they say: each that can be run here is run."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.answers import TYPES, AnswerSet
from tests.conftest import ROOT, git
from tests.docs.blocks import Block, all_blocks, blocks_of

BLOCKS = all_blocks()
SECONDS = 400
GPU_SMOKE = '#!/usr/bin/env bash\nPYTHONPATH={root}/base-images exec {python} -m gpu_smoke "$@"\n'


class Runner:
    """Runs the blocks of one page in one folder, with programs in the background that end with the page."""

    def __init__(self, folder: Path, bin_folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = str(probe.getsockname()[1])
        clean = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH", "RUN_IN")}
        identity = {
            f"GIT_{who}_{what}": "owner@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        self.environment = clean | identity | {"PATH": f"{bin_folder}:{clean['PATH']}", "PORT": self.port}
        self.background: list[subprocess.Popen[bytes]] = []

    def run(self, block: Block) -> None:
        """Run one block; the folder that it ends in is the next one's."""
        text = block.text.replace("localhost:8000", f"localhost:{self.port}")
        if block.until:
            job = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", f"exec {text.strip()}"], cwd=self.folder, env=self.environment
            )
            self.background.append(job)
            self.wait(block, job)
            return
        script = f"{text}\npwd >'{self.folder}/.pwd'\n"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{block.name} ended with {done.returncode}:\n{done.stdout[-4000:]}"
        place = self.folder / ".pwd"
        self.folder = Path(place.read_text(encoding="utf-8").strip())
        place.unlink()

    def wait(self, block: Block, job: subprocess.Popen[bytes]) -> None:
        """Wait until the program in the background answers."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and job.poll() is None:
            try:
                urllib.request.urlopen(f"http://localhost:{self.port}{block.until}", timeout=5).close()
                return
            except OSError:
                time.sleep(0.2)
        raise AssertionError(f"{block.name}: {block.until} never answered")

    def stop(self) -> None:
        """Stop what runs in the background; it must end in order."""
        for job in self.background:
            job.send_signal(signal.SIGTERM)
            assert job.wait(40) in (0, -signal.SIGTERM), f"{job.args} ended with {job.returncode}"


@pytest.fixture
def runner(template: Path, tmp_path: Path) -> Iterator[Callable[[Path], Runner]]:
    """Return a function that makes a Runner in a folder, with gpu-smoke and python on its path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "gpu-smoke").write_text(GPU_SMOKE.format(root=ROOT, python=sys.executable), encoding="utf-8")
    (programs / "gpu-smoke").chmod(0o755)
    (programs / "python").symlink_to(shutil.which("python3") or sys.executable)
    made: list[Runner] = []

    def make(folder: Path) -> Runner:
        made.append(Runner(folder, programs))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def parent_copy(template: Path, folder: Path) -> Path:
    """Return a copy of this repository with the environment of this one, which make takes as it is."""
    copy = folder / "family"
    shutil.copytree(template, copy)
    (copy / ".venv").symlink_to(ROOT / ".venv")
    for lock in ("requirements-dev.lock", "templates/shared/scripts/tools/uv.lock"):
        os.utime(copy / lock, (0, 0))  # else make would set up the environment of this repository again
    return copy


def pages_with(want: Callable[[Block], bool]) -> list[str]:
    """Return the pages that have such a block."""
    return list(dict.fromkeys(block.page for block in BLOCKS if want(block)))


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with(lambda block: not block.slow))
def test_the_commands_of_a_page(template: Path, runner, tmp_path: Path, page: str) -> None:  # type: ignore[no-untyped-def]
    here = runner(parent_copy(template, tmp_path))
    for block in BLOCKS:
        if block.page == page and not block.slow:
            here.run(block)


@pytest.mark.release
@pytest.mark.parametrize("page", pages_with(lambda block: block.how == "run: slow"))
def test_the_slow_commands_of_a_page(template: Path, runner, tmp_path: Path, page: str) -> None:  # type: ignore[no-untyped-def]
    here = runner(parent_copy(template, tmp_path))
    for block in BLOCKS:
        if block.page == page and not block.reason and block.place == "parent":
            here.run(block)


@pytest.mark.release
@pytest.mark.parametrize(
    ("page", "kind"), dict.fromkeys((b.page, b.place) for b in BLOCKS if not b.reason and b.place != "parent")
)
def test_the_commands_of_a_page_in_a_child(render, runner, tmp_path: Path, page: str, kind: str) -> None:  # type: ignore[no-untyped-def]
    child = tmp_path / kind
    shutil.copytree(render(AnswerSet(kind, "plain", training=kind == "batch")), child)
    git(child, "init", "--quiet", "--initial-branch=main")
    git(child, "add", "--all")
    git(child, "commit", "--quiet", "--message=Start from the template")
    here = runner(child)
    here.run(Block(page, 0, "scripts/setup\n", ""))
    for block in BLOCKS:
        if (block.page, block.place) == (page, kind) and not block.reason:
            here.run(block)


@pytest.mark.release
@pytest.mark.parametrize("kind", TYPES)
def test_the_first_commands_of_a_childs_own_readme(render, runner, tmp_path: Path, kind: str) -> None:  # type: ignore[no-untyped-def]
    child = tmp_path / kind
    shutil.copytree(render(AnswerSet(kind, "plain", training=kind == "batch")), child)
    text = (child / "README.md").read_text(encoding="utf-8").partition("## Add your own model")[0]
    blocks = blocks_of(text, f"README.md of a {kind}")
    assert len(blocks) >= 2, f"a {kind}'s README.md does not begin with commands"
    here = runner(child)
    for block in blocks:
        serves = kind == "service" and block.text == "scripts/run\n"
        here.run(Block(block.page, block.line, block.text, "run in: service, until: /readyz") if serves else block)
