"""What `importlib.metadata` says of the project that a repository is: its name, version, summary and entry points.

usage: project FOLDER TARGET

The code of a child runs from its folder and is not installed, so a package that asks for its own version would end with
PackageNotFoundError. `write` leaves the record of an installed package, read from its files, in a
folder of sys.path: scripts/setup calls it for .venv, the Dockerfile for the image. No code of the project runs for it.
Format: the core metadata specification and "Recording installed projects" of the Python Packaging User Guide.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

UNKNOWN = "0+unknown"  # the version where only the build of the package would tell it
TIME = 315532800  # 1980-01-01, the first that every archive can hold: the same record is the same layer of an image
MARK = "gpu-repo-runtime"  # in INSTALLER: which records are ours
NAME = re.compile(r"[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?", re.ASCII)
# Versions in the normal form of PEP 440.
VERSION = re.compile(r"(\d+!)?\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?")
PLACES = ("__init__.py", "__about__.py", "_version.py", "version.py")
DYNAMIC = re.compile(r"(?m)^__version__[^=\n]*=\s*[\"']([^\"']+)")


def read(folder: Path) -> dict[str, Any]:
    """Return [project] of a folder's pyproject.toml with its version, {} where no file names a project.

    Poetry's table, setup.cfg and setup.py count where it lacks a name or a version. A version that is in none of them
    is `__version__` of a package.
    """
    try:
        document = tomllib.loads(_text(folder / "pyproject.toml"))
    except tomllib.TOMLDecodeError:
        document = {}
    old = {word: _setup(folder, word) for word in ("name", "version")}
    found = old | _table(_table(document, "tool"), "poetry") | _table(document, "project")
    if not NAME.fullmatch(str(found.get("name", ""))):
        return {}
    said = found["version"] if isinstance(found.get("version"), str) else ""
    for file in [one for place in ("", "src/") for name in PLACES for one in sorted(folder.glob(f"{place}*/{name}"))]:
        said = said or "".join(DYNAMIC.findall(_text(file))[:1])
    return found | {"version": said if VERSION.fullmatch(said) else UNKNOWN}


def _table(document: dict[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def _setup(folder: Path, word: str) -> str:
    """Return what setup.cfg or setup.py says behind a word."""
    text = _text(folder / "setup.cfg") + _text(folder / "setup.py")
    found = re.search(rf"\b{word}\s*=\s*[\"']?(?!attr:)([\w.!+-]+)", text)
    return found[1] if found else ""


def write(folder: Path, target: Path) -> None:
    """Leave the record of the project of `folder` in the folder `target`, and none of an earlier name or version."""
    for other in target.glob("*.dist-info"):
        if (other / "INSTALLER").is_file() and (other / "INSTALLER").read_text(encoding="utf-8").strip() == MARK:
            shutil.rmtree(other)
    target.mkdir(parents=True, exist_ok=True)
    project = read(folder)
    if not project:
        return
    record = target / f"{re.sub(r'[-_.]+', '_', project['name']).lower()}-{project['version']}.dist-info"
    if record.exists():  # the project itself was installed, by the owner
        return
    record.mkdir()
    summary = " ".join(str(project.get("description", "")).split())
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    files = {"METADATA": head + (f"Summary: {summary}\n" if summary else ""), "INSTALLER": f"{MARK}\n"}
    points = {"console_scripts": _table(project, "scripts")} | _table(project, "entry-points")
    files["entry_points.txt"] = "".join(
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in some.items()) for group, some in points.items()
    )
    packages = sorted(file.parent.name for file in folder.glob("src/*/__init__.py"))
    files["top_level.txt"] = "".join(f"{name}\n" for name in packages)  # so that a package finds its project
    files["RECORD"] = "".join(f"{record.name}/{name},,\n" for name in [*files, "RECORD"])
    for name, text in files.items():
        (record / name).write_text(text, encoding="utf-8")
        os.utime(record / name, (TIME, TIME))
    os.utime(record, (TIME, TIME))


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
