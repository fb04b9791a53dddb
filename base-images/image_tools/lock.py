"""Resolve the lock of a row again and show what changed since the last release."""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from . import rollback
from .catalog import FOLDER, ImageError, chosen_rows, differences, lock_path, program, read_lock, toolchain_path
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
        index = "(the package index: PIP_INDEX_URL, or package_index in company.yml)"
        raise ImageError(f"{source}: uv found no versions {index}: {' '.join(result.stderr.split())[:600]}")


def renew(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Resolve the chosen rows and the compilers of their CUDA; --upgrade takes newer versions where allowed."""
    rows = chosen_rows(catalog, arguments.image)
    compilers = {toolchain_path(row).with_suffix(".in") for row in rows}
    for source in [lock_path(row["name"]).with_suffix(".in") for row in rows] + sorted(compilers):
        if source not in compilers or source.is_file():
            renew_one(source, arguments.upgrade)


def released(path: Path) -> str:
    """Return a lock as in the last commit that changed VERSION, "" where that has none. Raises ImageError."""
    commit = rollback.git("log", "-1", "--format=%H", "--", "../VERSION").strip()
    name = path.relative_to(FOLDER).as_posix()
    return rollback.git("show", f"{commit}:./{name}") if rollback.git("ls-tree", commit, name) else ""


def renew_one(source: Path, upgrade: bool) -> None:
    """Resolve the lock beside `source` and show what changed since the last release."""
    path = source.with_suffix(".lock")
    with tempfile.TemporaryDirectory() as folder:
        fresh, before = Path(folder) / path.name, Path(folder) / "released.lock"
        if path.is_file() and not upgrade:
            shutil.copyfile(path, fresh)
        resolve(source, fresh)
        before.write_text(released(path))
        locks = [read_lock(before) if before.stat().st_size else {}, read_lock(fresh)]
        found = differences(*({key: pin.version for key, pin in pins.items()} for pins in locks))
        print(f"{path.relative_to(FOLDER)}: {len(found)} changes since the last release", *found, sep="\n  ")
        shutil.copyfile(fresh, path)
