"""What pyproject.toml says of a project: its packages, its Python, its name, version and entry points.

usage: project FOLDER TARGET

The code of a child runs from its folder and is not installed, so `importlib.metadata.version()` would not find it.
`write` leaves the record of an installed package in TARGET, a folder of sys.path: scripts/setup calls it for .venv, the
Dockerfile for the image. No code of the project runs for it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

UNKNOWN = "0+unknown"  # the version where only the build of the package would tell it


def read(folder: Path = Path()) -> dict[str, Any]:
    """Return what pyproject.toml contains, {} where it cannot be read: uv and ruff report what is wrong with it."""
    try:
        return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return {}


def required(folder: Path = Path()) -> dict[str, list[str]]:
    """Return the requirements that scripts/lock reads, by the lock that they belong to."""
    document = read(folder)
    project = document.get("project", {})
    lists = {
        "requirements.lock": project.get("dependencies", []),
        "requirements-gpu.lock": project.get("optional-dependencies", {}).get("gpu", []),
        "requirements-dev.lock": document.get("dependency-groups", {}).get("dev", []),
    }
    return {lock: [one for one in some if isinstance(one, str)] for lock, some in lists.items()}


def described(folder: Path = Path()) -> dict[str, Any]:
    """Return the table [project], else Poetry's."""
    document = read(folder)
    return dict(document.get("project") or document.get("tool", {}).get("poetry", {}))


def write(folder: Path, target: Path) -> None:
    """Leave the record of the project of `folder` in the folder `target`, if pyproject.toml has its name.

    Format: the core metadata and the entry points specification of the Python Packaging User Guide.
    """
    project = described(folder)
    name, version = project.get("name", ""), project.get("version", UNKNOWN)
    target.mkdir(parents=True, exist_ok=True)
    if not name:
        return
    record = target / f"{re.sub(r'[-_.]+', '_', name).lower()}-{version}.dist-info"
    record.mkdir(exist_ok=True)
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    groups = {"console_scripts": project.get("scripts", {})} | project.get("entry-points", {})
    texts = [f"[{group}]\n" + "".join(f"{key} = {some[key]}\n" for key in some) for group, some in groups.items()]
    (record / "entry_points.txt").write_text("".join(texts), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
