"""A user that the system does not know, as in OpenShift, with HOME unset: what is here is used."""

from __future__ import annotations

import pwd
import shutil
from pathlib import Path

import pytest
from gpu_repo_runtime import weights
from gpu_repo_runtime.weights import lockfile, store

from tests.runtime.weights_projects import FOLDER, Project, done


@pytest.fixture
def homeless(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project whose weights are in its own folder, for a user without a home."""

    def unknown(who: object) -> None:
        raise KeyError(f"uid not found: {who}")

    folder = project(FOLDER, stored__a_dot_bin=b"a")
    done("lock")
    done("fetch")
    shutil.copytree(store.place_of(lockfile.read(folder / "weights.lock")), folder / "weights")
    for name in ("HOME", "XDG_CACHE_HOME", "DOCKER_CONFIG", "NETRC", "COPIER_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(pwd, "getpwnam", unknown)
    return folder


def test_weights_of_the_checkout_need_no_home(homeless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = homeless / "src/owner_without_home"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(homeless / "src"))
    found = weights.find(package.name)
    assert found is not None
    assert found.path == homeless / "weights"


def test_a_fetch_says_that_the_cache_has_no_place(homeless: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    done("fetch", "--print", code=2)
    [line] = capsys.readouterr().err.splitlines()
    assert "has no home folder" in line
    assert "WEIGHTS_CACHE" in line
