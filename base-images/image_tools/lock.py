"""Resolve the lock of a row again and show what changes."""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from .catalog import FOLDER, ImageError, chosen_rows, differences, program, read_lock, toolchain_path
from .package_index import lock_environment

OLDEST_PYTHON = "3.11"  # children run on 3.11 to 3.13 and install the same versions
OPTIONS = (
    f"--universal --python-version {OLDEST_PYTHON} --fork-strategy fewest --generate-hashes --no-emit-index-url "
    "--no-emit-find-links --no-annotate --no-header --quiet"
)


def resolve(source: Path, target: Path) -> None:
    """Write the lock of `source` to `target`; what `target` holds already is kept where it still fits."""
    if not source.is_file():
        raise ImageError(
            f"{source} does not exist: write what the image is made of, as in {FOLDER}/plain-cu13/{source.name}"
        )
    command = [program("uv"), "pip", "compile", source.name, *OPTIONS.split(), "--output-file", str(target)]
    result = subprocess.run(
        command, cwd=source.parent, env=lock_environment(), capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise ImageError(f"{source}: no versions fit together: {' '.join(result.stderr.split())[:600]}")


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
        new = read_lock(fresh)
        found = differences(*({key: pin.version for key, pin in pins.items()} for pins in (old, new)))
        print(f"{name}: {len(found)} changes" + "".join(f"\n  {line}" for line in found))
        if old != new:
            shutil.copyfile(fresh, path)
