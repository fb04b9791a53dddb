"""The rooms of this repository: what a module takes from another is there, and imports point down."""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Iterable
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT

PLACES = (".", "hooks", "tools", "runtime/src", "base-images", "base-images/recipe/finish")
OURS = ("tests", "benchmarks", "fleetkit", "adoption", "releasekit", "image_tools", "gpu_repo_runtime")


def taken(file: Path) -> list[tuple[str, str]]:
    """Return the modules of ours, and the names in them, that a file imports."""
    nodes = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]
    modules = [(node.module or "", node) for node in nodes if not node.level]
    return [(module, alias.name) for module, node in modules if module.split(".")[0] in OURS for alias in node.names]


def is_there(module: str, name: str) -> bool:
    """Tell whether `from module import name` finds it."""
    return hasattr(importlib.import_module(module), name) or bool(importlib.util.find_spec(f"{module}.{name}"))


def test_benchmarks_take_only_what_is_there() -> None:
    files = sorted((ROOT / "benchmarks").rglob("*.py"))
    named = {(file.relative_to(ROOT).as_posix(), *one) for file in files for one in taken(file)}
    assert named
    missing = [one for one in sorted(named) if not is_there(*one[1:])]
    assert not missing, f"imported and not there: {missing}"


@cache
def file_of(module: str) -> Path | None:
    """Return the file of this repository that a module's name leads to, None for what is not ours."""
    stems = [ROOT / place / module.replace(".", "/") for place in PLACES]
    found = [file for stem in stems for file in (stem.with_suffix(".py"), stem / "__init__.py") if file.is_file()]
    return Path(os.path.normpath(found[0])) if found else None


def imported(file: Path, nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names of the modules that a file imports in these parts of it, and of what it takes from them."""
    place = next(ROOT / place for place in reversed(PLACES) if file.is_relative_to(ROOT / place))
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = file.relative_to(place).parts[: -node.level] if node.level else ()
            module = ".".join([*above, *filter(None, [node.module])])
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.slow
def test_imports_run_in_no_circle() -> None:
    """What a module calls lies below it: the walk of an update, or of a child of a fleet, goes down only."""
    rooms = ("hooks", "tools", "runtime/src", "base-images/image_tools", "base-images/gpu_smoke")
    below = {}
    for file in (file for room in rooms for file in (ROOT / room).rglob("*.py")):
        found = {file_of(name) for name in imported(file, ast.parse(file.read_text()).body)}
        below[file] = {one for one in found - {None, file} if one and one.name != "__init__.py"}
    assert any(below.values())
    TopologicalSorter(below).prepare()
