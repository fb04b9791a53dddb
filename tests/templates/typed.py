"""What two type checkers say of a child, as an owner's editor and CI may run them: no error is excused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

BIN = Path(sys.executable).parent
CACHE = ROOT / "build" / "types"  # kept: what NumPy and pydantic say of their types is read once
# These have no types: they are Any, and nothing else is.
UNTYPED = ("cupy", "tensorflow", "keras", "pyarrow")


def type_errors(child: Path, scratch: Path, python: str | Path = sys.executable) -> str:
    """Return what mypy --strict and pyright say of src/ and tests/ with the packages of `python`, "" when nothing."""
    scratch.mkdir(parents=True, exist_ok=True)
    return "".join(check(child, scratch, str(python)) for check in (mypy_errors, pyright_errors))


def mypy_errors(child: Path, scratch: Path, python: str) -> str:
    """Return the errors of mypy --strict."""
    config = scratch / "mypy.ini"
    untyped = "".join(f"[mypy-{name}.*]\nignore_missing_imports = True\n" for name in UNTYPED)
    runtime = "[mypy-gpu_repo_runtime.*]\nfollow_imports = silent\n"  # as if installed; `make lint` checks its source
    config.write_text("[mypy]\nstrict = True\n" + runtime + untyped, encoding="utf-8")
    cache = CACHE if python == sys.executable else scratch / "cache"
    where = {"MYPYPATH": f"src:{ROOT / 'runtime/src'}"}
    command = [BIN / "mypy", "--config-file", config, "--python-executable", python, "--cache-dir", cache]
    return said([*command, "src", "tests"], child, where)


def pyright_errors(child: Path, scratch: Path, python: str) -> str:
    """Return the errors of pyright in src/ and tests/ of a child."""
    return pyright([child / "src", child / "tests"], [child / "src", ROOT / "runtime/src"], UNTYPED, scratch, python)


def pyright(checked: list[Path], paths: list[Path], untyped: tuple[str, ...], scratch: Path, python: str) -> str:
    """Return the errors of pyright in some folders; basedpyright brings it as a wheel with its own Node."""
    (scratch / "stubs").mkdir(parents=True, exist_ok=True)  # one that is not there counts as an error
    for name in imported(checked, untyped):
        stub = scratch / "stubs" / name.replace(".", "/") / "__init__.pyi"
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text("from typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n", encoding="utf-8")
    settings = {
        "typeCheckingMode": "standard",
        "include": list(map(str, checked)),
        "extraPaths": list(map(str, paths)),
        "stubPath": str(scratch / "stubs"),
    }
    config = scratch / "pyrightconfig.json"
    config.write_text(json.dumps(settings), encoding="utf-8")
    command = [BIN / "basedpyright", "--level", "error", "--pythonpath", python, "--project", config]
    return said(command, checked[0], {})


def imported(folders: list[Path], packages: tuple[str, ...]) -> set[str]:
    """Return the modules of some packages that the code imports, and the packages above them."""
    lines = (line for folder in folders for path in folder.rglob("*.py") for line in path.read_text().splitlines())
    found = {match[1] for line in lines if (match := re.match(r"\s*(?:import|from) ([\w.]+)", line))}
    parts = [name.split(".") for name in found if name.partition(".")[0] in packages]
    return {".".join(names[:count]) for names in parts for count in range(1, len(names) + 1)}


def said(command: list[str | Path], folder: Path, more: dict[str, str]) -> str:
    """Return what a checker prints when it finds something."""
    done = subprocess.run(command, cwd=folder, env=os.environ | more, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{Path(command[0]).name}:\n{done.stdout}{done.stderr}"
