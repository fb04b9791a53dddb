"""What is not locked is to do only where the code needs it, and what is locked far back is said."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from adoption import held_back, locks
from adoption.locks import Wanted, resolve
from adoption.optional import goes_without
from adoption.requirements import Fitted
from adoption.tree import read_tree

from tests.adopt.conftest import Make

CAUGHT = "try:\n    import kenlm\nexcept ImportError:\n    kenlm = None\n"
LATE = "def f():\n    from kenlm import Model\n"
GOES = {
    "caught": ({"nets/a.py": CAUGHT}, "nets/a.py"),
    "caught in a function, and late elsewhere": (
        {"nets/a.py": "def check():\n" + "".join(f"    {line}\n" for line in CAUGHT.splitlines()), "nets/b.py": LATE},
        "nets/a.py",
    ),
    "caught among others": ({"a.py": CAUGHT.replace("ImportError", "(OSError, ModuleNotFoundError)")}, "a.py"),
    "needed": ({"nets/a.py": "import kenlm\n"}, ""),
    "caught here, needed there": ({"nets/a.py": CAUGHT, "nets/b.py": "from kenlm.x import y\n"}, ""),
    "late alone": ({"nets/a.py": LATE}, ""),
    "caught for another reason": ({"a.py": CAUGHT.replace("ImportError", "ValueError")}, ""),
    "where nothing is there, it is imported": ({"a.py": "try:\n    x()\nexcept ImportError:\n    import kenlm\n"}, ""),
    "not imported": ({"nets/a.py": "print('kenlm')\n"}, ""),
    "a file that cannot be parsed": ({"a.py": CAUGHT, "b.py": "print 'x'\nimport kenlm\n"}, ""),
    "one of its own": ({"nets/a.py": "from .kenlm import x\n"}, ""),
}


@pytest.mark.parametrize("kind", GOES)
def test_code_that_goes_without_a_package(kind: str, old: Make) -> None:
    files, expected = GOES[kind]
    assert goes_without(read_tree(old(files)), "KenLM") == expected, kind


def test_a_package_that_is_imported_by_another_name(old: Make) -> None:
    tree = read_tree(old({"a.py": "try:\n    import yaml\nexcept ImportError:\n    pass\n"}))
    assert goes_without(tree, "PyYAML") == "a.py"


NEWEST = {"datasets": ("5.2.0", "2026-11-09"), "slow": ("1.1", "2020-01-01"), "held": ("9", "2026-01-01")}
THERE = {"datasets": ("2.14.4", "2023-08-01"), "slow": ("1.0", "2019-01-01"), "held": ("1", "2019-01-01")}


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> None:
    def about(room: Path, asked: list[str]) -> dict[str, tuple[str, str]]:
        known = THERE if any("==" in text for text in asked) else NEWEST
        return {name: known[name] for name in (text.partition("==")[0] for text in asked)}

    monkeypatch.setattr(held_back, "_about", about)


def room_with(folder: Path, locked: str) -> Path:
    """Return a folder with a lock and nothing that the image holds."""
    (folder / "requirements-dev.lock").write_text(locked)
    (folder / "constraints.txt").write_text("held==1\n")
    return folder


LOCK = "datasets==2.14.4 \\\n    --hash=sha256:00\nslow==1.0\nheld==1\n"


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize(
    ("asked", "found"), [("datasets>=2", True), ("datasets<3", False), ("datasets==2.14.4", False)]
)
def test_what_is_locked_far_back_of_its_own_accord_is_found(asked: str, found: bool, tmp_path: Path) -> None:
    room = room_with(tmp_path, LOCK)
    old = held_back.held_back(room, [asked, "slow", "held"], {"held"})
    assert old == ({"datasets": ("2.14.4", "5.2.0")} if found else {}), old


@pytest.mark.usefixtures("index")
def test_a_tool_that_is_locked_far_back_is_left_out_and_a_package_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "run_lock", lambda room: "")
    tool = Wanted([], [], [Fitted("datasets", "pyproject.toml")])
    done = resolve(room_with(tmp_path, LOCK), "requirements", tool, True, "torch-cu13")
    assert "left out of requirements-dev.in" in done.out["datasets"]
    assert "datasets 2.14.4, years older than 5.2.0" in done.out["datasets"]
    assert "\ndatasets" not in (tmp_path / "requirements-dev.in").read_text()
    run = Wanted([Fitted("datasets", "requirements.txt")], [], [])
    done = resolve(room_with(tmp_path, LOCK), "requirements", run, False, "torch-cu13")
    assert not done.out
    assert any("datasets is locked far back" in note for note in done.notes), done
    assert "\ndatasets" in (tmp_path / "requirements.in").read_text()


def test_the_day_of_a_version_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "uv.toml").write_text("")
    text = '[[packages]]\nname = "A"\nversion = "1"\nwheels = [{upload-time = 2026-11-09T21:37:45Z, size = 1}]\n'
    done: Any = subprocess.CompletedProcess([], 0, text, "")
    monkeypatch.setattr(held_back.subprocess, "run", lambda *_, **__: done)
    assert held_back._about(tmp_path, ["a"]) == {"a": ("1", "2026-11-09")}
