"""The locks that children start with: the lock of development tools fits the packages beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from lock_templates import LOCKS, TOOLS, share_tools, shared_tools

from tests.templates import checks

SETS = sorted(folder.name for folder in LOCKS.iterdir() if folder.name != "tools")


def type_of(name: str) -> str:
    return name.split("-")[0]


def tools_of(name: str) -> Path:
    """Return the lock of the development tools that a set starts with, as the template chooses it."""
    own = LOCKS / name / TOOLS
    return own if own.exists() else shared_tools(type_of(name))


def test_the_development_tools_fit_the_packages_beside_them() -> None:
    """scripts/setup installs both into one environment."""
    for name in SETS:
        tools = checks.requirements(tools_of(name).read_text())
        assert tools.keys() >= {"pytest", "ruff"}, tools_of(name)
        for lock in sorted((LOCKS / name).glob("requirements*.lock")):
            pins = checks.requirements(lock.read_text())
            other = {
                package: (pins[package], tools[package])
                for package in tools
                if pins.get(package, tools[package]) != tools[package]
            }
            assert other == {}, f"{lock}: other versions than in {tools_of(name)}: make locks"


@pytest.mark.parametrize("lock", sorted(LOCKS.glob("tools/*.lock")), ids=lambda lock: lock.stem)
def test_every_development_tool_has_a_wheel_for_linux_on_arm(lock: Path, tmp_path: Path) -> None:
    """The stages test and dev of an image take wheels only."""
    uv = Path(sys.executable).with_name("uv")
    arm = ("--python-platform", "aarch64-manylinux_2_36", "--python-version", "3.13", "--only-binary", ":all:")
    command = [uv, "pip", "install", "--dry-run", "--quiet", *arm, "--no-deps", "--target", tmp_path]
    done = subprocess.run([*command, "-r", lock], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{lock}: {done.stderr}"


def test_a_lock_of_tools_is_shared_where_most_sets_have_it(tmp_path: Path) -> None:
    texts = {"service-a": "usual", "service-b": "other", "service-c": "usual"}
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / TOOLS).write_text(text)
    (tmp_path / "tools").mkdir()
    share_tools(tmp_path)
    kept = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*.lock")}
    assert kept == {"tools/service.lock": "usual", f"service-b/{TOOLS}": "other"}
