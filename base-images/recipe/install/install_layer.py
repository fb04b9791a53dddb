"""Build step: install one layer's packages into the environment, trim them, and make the result reproducible.

Runs inside `docker build` with the Python of the installer's stage, of the image's version (standard library only):
    install_layer.py PLAN KIT NAME
PLAN holds requirements.txt and trims.json of the layer NAME; KIT is the root of the installer stage (uv, strip).
Two runs on different days write the same bytes: fixed file times, byte code after that, no caches.
"""

import base64
import compileall
import hashlib
import json
import os
import py_compile
import re
import subprocess
import sys
from pathlib import Path

from elf import search_before_environment
from file_times import FILE_TIME, set_times
from pip_settings import index_options, uv_environment

ENVIRONMENT = Path("/opt/env")
SITE = next(ENVIRONMENT.glob("lib/python3*/site-packages"))
CACHE = Path("/srv")  # a cache mount
TRIMMED = Path("/opt/base/trimmed")


def install(plan: Path, kit: Path) -> None:
    """Install the layer's requirements by hash, with the package cache outside the image."""
    options = [
        "--index-strategy",
        "unsafe-best-match",  # the hashes decide which file is taken, so any index may have it
        "--no-deps",
        "--require-hashes",
        "--only-binary",
        ":all:",
        "--link-mode",
        "copy",
        "--no-compile-bytecode",
    ]
    target = ["--python", str(ENVIRONMENT / "bin/python"), "-r", str(plan / "requirements.txt")]
    environment = uv_environment() | {"UV_CACHE_DIR": str(CACHE)}
    command = [kit / "opt/installer/native", "uv", "pip", "install", "--quiet", *index_options(), *options, *target]
    subprocess.run(command, check=True, env=environment)


def strip(files: list[Path], kit: Path) -> None:
    """Drop debug information and local symbols; what the loader needs stays."""
    for path in files:
        subprocess.run([kit / "opt/installer/native", "strip", "--strip-unneeded", path], check=True)


def libraries(patterns: list[str]) -> list[Path]:
    """Return the real files that match the globs."""
    return [path for pattern in patterns for path in SITE.glob(pattern) if not path.is_symlink()]


def trim(rules: list[dict], kit: Path, report: Path) -> set[Path]:
    """Apply the trim rules; return the files that changed or went, and report files and bytes saved by rule."""
    touched: set[Path] = set()
    entries = []
    for rule in rules:
        found = {path for pattern in rule.get("remove", []) for path in SITE.glob(pattern)}  # patterns may overlap
        gone = sorted(path for path in found if not path.is_dir())
        stripped = libraries(rule.get("strip", []))
        bound = [path for path in libraries(rule.get("bind", [])) if search_before_environment(path)]
        before = sum(path.lstat().st_size for path in gone + stripped)
        for path in gone:
            path.unlink()
        strip(stripped, kit)
        saved = before - sum(path.stat().st_size for path in stripped)
        entries.append({"reason": rule["reason"], "files": len(gone) + len(stripped) + len(bound), "bytes": saved})
        touched |= {*gone, *stripped, *bound}
    remove_empty_folders({path.parent for path in touched})
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(json.dumps(entries, indent=1) + "\n")
    return touched


def remove_empty_folders(folders: set[Path]) -> None:
    """Remove the folders, and those above them, that hold nothing any more."""
    for folder in sorted(folders, reverse=True):
        while folder != SITE and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent


def share_copies(new: list[Path]) -> set[Path]:
    """Replace equal copies of a shared library in one folder by links to the one with the longest name.

    Wheels cannot hold links, so libx.so, libx.so.1 and libx.so.1.2 come as three files.
    """
    groups: dict[tuple, list[Path]] = {}
    for path in new:
        if re.search(r"\.so(\.\d+)*$", path.name) and path.is_file() and path.stat().st_size > 100_000:
            groups.setdefault((path.parent, path.name.split(".so")[0], path.stat().st_size), []).append(path)
    replaced: set[Path] = set()
    for paths in groups.values():
        keep, *others = sorted(paths, key=lambda path: (-len(path.name), path.name))
        digest = hashlib.sha256(keep.read_bytes()).digest()
        for path in others:
            if hashlib.sha256(path.read_bytes()).digest() == digest:
                path.unlink()
                path.symlink_to(keep.name)
                replaced.add(path)
    return replaced


def correct_records(touched: set[Path]) -> None:
    """Make each RECORD tell what is there now: drop removed files, renew the hash of changed ones."""
    names = {os.path.relpath(path, SITE): path for path in touched}
    for record in SITE.glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines()
        if any(line.split(",")[0] in names for line in lines):
            kept = (record_line(line, names.get(line.split(",")[0])) for line in lines)
            record.write_text("".join(f"{line}\n" for line in kept if line))


def record_line(line: str, path: Path | None) -> str:
    """Return the line as it must be now, or "" for a file that is gone."""
    if path is None:
        return line
    if not path.exists():
        return ""
    content = path.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{line.split(',')[0]},sha256={digest},{len(content)}"


def main() -> None:
    """Install, trim, share, record, compile, date."""
    plan, kit = Path(sys.argv[1]), Path(sys.argv[2])
    if not (plan / "requirements.txt").read_text().strip():
        return
    before = {path for path in SITE.rglob("*")}
    install(plan, kit)
    (ENVIRONMENT / ".lock").unlink(missing_ok=True)  # the installer's, and anybody could write to it
    report = TRIMMED / f"{sys.argv[3]}.json"
    touched = trim(json.loads((plan / "trims.json").read_text()), kit, report)
    new = [path for path in SITE.rglob("*") if path not in before]
    touched |= share_copies(new)
    correct_records(touched)
    set_times([ENVIRONMENT], since=FILE_TIME + 1)
    compileall.compile_dir(SITE, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    set_times([Path("/opt")], since=FILE_TIME + 1)


if __name__ == "__main__":
    main()
