"""What `importlib.metadata` says of the project that a repository is: its name, version, summary and entry points.

usage: project FOLDER TARGET

The code of a child runs from its folder and is not installed, so a package that asks for its own version would end with
PackageNotFoundError. `write` leaves the record of an installed package, read from pyproject.toml, in a folder of
sys.path: scripts/setup calls it for .venv, the Dockerfile for the image. No code of the project runs for it.
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


def read(folder: Path) -> dict[str, Any]:
    """Return [project] of a folder's pyproject.toml, else Poetry's table; {} where neither has a name.

    A version that only a build computes is UNKNOWN.
    """
    try:
        document = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return {}
    found: dict[str, Any] = document.get("project") or document.get("tool", {}).get("poetry", {})
    if not NAME.fullmatch(str(found.get("name", ""))):
        return {}
    version = str(found.get("version", ""))
    return found | {"version": version if VERSION.fullmatch(version) else UNKNOWN}


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
    points = {"console_scripts": project.get("scripts", {})} | project.get("entry-points", {})
    files["entry_points.txt"] = "".join(
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in some.items()) for group, some in points.items()
    )
    files["RECORD"] = "".join(f"{record.name}/{name},,\n" for name in [*files, "RECORD"])
    for name, text in files.items():
        (record / name).write_text(text, encoding="utf-8")
        os.utime(record / name, (TIME, TIME))
    os.utime(record, (TIME, TIME))


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
