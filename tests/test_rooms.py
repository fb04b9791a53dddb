"""What the benchmarks import is there; mypy and import-linter check the other rooms."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

from tests.conftest import ROOT

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
