"""What the benchmarks import is there; mypy and import-linter check the other rooms."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec

from tests.conftest import ROOT

OURS = ("tests", "benchmarks", "fleetkit", "adoption", "releasekit", "image_tools", "gpu_repo_runtime")


def test_benchmarks_import_only_what_is_there() -> None:
    missing = []
    for file in (ROOT / "benchmarks").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] in OURS:
                names = [one.name for one in node.names if not hasattr(import_module(node.module or ""), one.name)]
                missing += [
                    (file.name, f"{node.module}.{one}") for one in names if not find_spec(f"{node.module}.{one}")
                ]
    assert missing == []
