"""Resolve the lock of a row again and show what changes."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .catalog import FOLDER, ImageError, Pin, chosen_rows, read_lock, toolchain_path
from .package_index import lock_environment

OLDEST_PYTHON = "3.11"  # children run on 3.11 to 3.13 and install the same versions
OPTIONS = [
    "--universal",
    "--python-version",
    OLDEST_PYTHON,
    "--fork-strategy",
    "fewest",
    "--generate-hashes",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--no-annotate",
    "--no-header",
    "--quiet",
]


def uv() -> str:
    """Return the uv beside this Python, or the one on PATH."""
    beside = Path(sys.executable).with_name("uv")
    if found := (str(beside) if beside.exists() else shutil.which("uv")):
        return found
    raise ImageError("uv is not installed: run `make` once, or install uv from PyPI")


def resolve(source: Path, target: Path) -> None:
    """Write the lock of `source` to `target`; what `target` holds already is kept where it still fits."""
    if not source.is_file():
        raise ImageError(
            f"{source} does not exist: write what the image is made of, as in {FOLDER}/plain-cu13/{source.name}"
        )
    command = [uv(), "pip", "compile", source.name, *OPTIONS, "--output-file", str(target)]
    result = subprocess.run(
        command, cwd=source.parent, env=lock_environment(), capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise ImageError(f"{source}: no versions fit together: {' '.join(result.stderr.split())[:600]}")


def changes(old: dict[str, Pin], new: dict[str, Pin]) -> list[str]:
    """Return one line per package that came, went, changed its version or its hashes."""
    lines = []
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before is None and after is not None:
            lines.append(f"+ {name} {after.version}")
        elif after is None and before is not None:
            lines.append(f"- {name} {before.version}")
        elif before and after and before.version != after.version:
            lines.append(f"  {name} {before.version} -> {after.version}")
        elif before and after and set(before.hashes) != set(after.hashes):
            lines.append(f"  {name} {after.version}: other files")
    return lines


def renew(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Resolve the chosen rows and the compilers of their CUDA; --upgrade takes newer versions where allowed."""
    rows = chosen_rows(catalog, arguments.image)
    for row in rows:
        renew_one(row["name"], FOLDER / row["name"] / "requirements.in", arguments.upgrade)
    for source in sorted({toolchain_path(row).with_suffix(".in") for row in rows}):
        if source.is_file():
            renew_one(source.stem, source, arguments.upgrade)


def renew_one(name: str, source: Path, upgrade: bool) -> None:
    """Resolve the lock beside `source` and show what changes."""
    path = source.with_suffix(".lock")
    old = read_lock(path) if path.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / path.name
        if old and not upgrade:
            shutil.copyfile(path, fresh)
        resolve(source, fresh)
        found = changes(old, read_lock(fresh))
        print(f"{name}: {len(found)} changes" + "".join(f"\n  {line}" for line in found))
        if found:
            shutil.copyfile(fresh, path)
