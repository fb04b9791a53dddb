"""A package index in a folder and children that lock from it, with the scripts that this family's children have."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import zipfile
from pathlib import Path

from tests.conftest import ROOT
from tests.updates.small_fleet import Fleet

LOCK = """\
#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "lock: $1" >&2; exit 1; }
.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \\
    --no-annotate --custom-compile-command scripts/lock pyproject.toml --constraints constraints.txt "$@" \\
    --output-file requirements.lock ||
    fail "the packages do not fit the base image"
"""
PROJECT = '[project]\nname = "one"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["web", "maths<2"]\n'


def add_package(index: Path, name: str, version: str, needs: str = "") -> None:
    """Put an empty wheel into the index."""
    index.mkdir(exist_ok=True)
    about = f"{name}-{version}.dist-info"
    texts = {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + (f"Requires-Dist: {needs}\n" if needs else ""),
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    for path, text in texts.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        rows.append(f"{path},sha256={digest},{len(text)}\n")
    with zipfile.ZipFile(index / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in (texts | {f"{about}/RECORD": "".join(rows) + f"{about}/RECORD,,\n"}).items():
            wheel.writestr(path, text)


def files_of_a_child(index: Path, constraints: str = "") -> dict[str, str | None]:
    """Return the files of a child that asks for web (which needs starlette) and maths, with its locks made."""
    files = {"pyproject.toml": PROJECT, "constraints.txt": constraints, "scripts/lock": LOCK}
    return {**files, "requirements.lock": locked(index, constraints)}


def locked(index: Path, constraints: str) -> str:
    """Return the lock of what is in the index now."""
    folder = index.parent / "locking"
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "constraints.txt").write_text(constraints)
    command = [
        str(ROOT / ".venv" / "bin" / "uv"), "pip", "compile", "--quiet", "--universal", "--python-version", "3.11",
        "--generate-hashes", "--no-emit-index-url", "--no-annotate", "--custom-compile-command", "scripts/lock",
        "--no-index", "--find-links", str(index), "pyproject.toml", "--constraints", "constraints.txt",
    ]  # fmt: skip
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


class LockFleet(Fleet):
    """A fleet whose children lock from an index in a folder."""

    def __init__(self, folder: Path, edits: dict[str, dict[str, str | None]], **more: bool) -> None:
        super().__init__(folder, edits, **more)
        self.index = folder / "index"
        self.environment |= {"UV_FIND_LINKS": str(self.index), "UV_OFFLINE": "1"}

    def lock(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Plan the renewal of the locks from the index, with no more than it needs to see."""
        see = ["--test-see", str(self.index), "--test-env", "UV_FIND_LINKS", "--test-env", "UV_OFFLINE"]
        return self.run("lock", *arguments, *see)

    def lock_record(self, name: str) -> dict[str, object]:
        """Return what the tool remembers of the renewal of a child's locks."""
        return self.record(f"../locks/children/{name}")
