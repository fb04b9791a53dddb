"""A user that the system does not know, as in OpenShift, with HOME unset: what is here is used."""

from __future__ import annotations

import pwd
import shutil
from pathlib import Path

import pytest
from gpu_repo_runtime.weights import cli, lockfile, registry, using
from gpu_repo_runtime.weights.cache import Cache, default_root
from gpu_repo_runtime.weights.sources import hub, web

from tests.runtime.weights_projects import FOLDER, Project, done


@pytest.fixture
def homeless(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project whose weights are in its own folder, for a user without a home."""

    def unknown(who: object) -> None:
        raise KeyError(f"uid not found: {who}")

    folder = project(FOLDER, stored__a_dot_bin=b"a")
    done("lock")
    done("fetch")
    shutil.copytree(Cache(default_root()).place_of(lockfile.read(folder / "weights.lock")), folder / "weights")
    for name in ("HOME", "XDG_CACHE_HOME", "DOCKER_CONFIG", "NETRC", "COPIER_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(pwd, "getpwnam", unknown)
    return folder


def test_weights_of_the_checkout_need_no_home(homeless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(using, "_lock_of", lambda _: homeless / "weights.lock")
    found = using.find("owner")
    assert found is not None
    assert found.path == homeless / "weights"


def test_a_fetch_says_that_the_cache_has_no_place(homeless: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    done("fetch", "--print", code=2)
    [line] = capsys.readouterr().err.splitlines()
    assert "HOME is not set" in line
    assert "WEIGHTS_CACHE" in line


def test_who_has_no_home_has_no_login_there(homeless: Path) -> None:
    assert (registry._login("registry.example"), web._netrc("example"), hub._token()) == ("", {}, "")


@pytest.mark.parametrize("place", ["~/models", "~nobody-of-this-name/models"])
def test_a_tilde_that_leads_nowhere_is_a_folder_that_is_not_there(
    homeless: Path, place: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIGHTS_CACHE", str(homeless / "kept"))
    (homeless / "weights.toml").write_text(f'[words]\nsource = "{place}"\n')
    assert cli.main(["lock"]) != 0
    assert place in capsys.readouterr().err
