"""What an owner's files import of the runtime that the one in wheels/ has no more, and what takes its place."""

from __future__ import annotations

import ast
import subprocess
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

from .wheels import PACKAGE, carried

SHOWN = 20
LISTED = f"{PACKAGE}/retired.toml"


def told_gone(child: Path) -> str:
    """Return a line for each import of a module that the wheel of `child` lacks, or "" where there is none.

    An ejected copy has its own modules, so nothing is told there. Raises OSError and BadZipFile.
    """
    wheel = carried(child)
    if wheel is None or (child / "src" / PACKAGE).is_dir():
        return ""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        retired = tomllib.loads(archive.read(LISTED).decode()) if LISTED in names else {}
    modules = {_module(name) for name in names if name.endswith(".py")}
    lines = [
        f"runtime    {path}, line {line}: {module} is gone: {retired.get(module) or 'nothing takes its place'}"
        for path in _python_files(child)
        for line, module in _imported(child / path, modules, retired.keys())
    ]
    more = [f"runtime    and {len(lines) - SHOWN} more such imports"] if len(lines) > SHOWN else []
    return "\n".join([*lines[:SHOWN], *more])


def _module(name: str) -> str:
    """Return the module that a file of the wheel is."""
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _python_files(child: Path) -> list[str]:
    """Return the Python files of the repository that git keeps or would keep; none where git does not answer."""
    asked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.py"]
    try:  # and not by git_calls: scripts/setup runs this before any package is there
        done = subprocess.run(asked, cwd=child, capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return []
    names = done.stdout.decode(errors="surrogateescape").split("\0")
    return sorted({name for name in names if name and (child / name).is_file()})


def _imported(path: Path, modules: set[str], retired: object) -> Iterator[tuple[int, str]]:
    """Yield line and name of each module of the runtime that a file imports and `modules` lacks."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # not this program's business: its own tests say so
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            asked = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            # What a module is asked for may be a name in it: only the list tells a module that is gone from that.
            within = [f"{node.module}.{alias.name}" for alias in node.names]
            asked = [node.module, *(name for name in within if name in retired)]  # type: ignore[operator]
        else:
            continue
        for name in asked:
            if name.split(".")[0] == PACKAGE and name not in modules:
                yield node.lineno, name
