"""Build step: install one layer's packages into the environment, trim them, and make the result reproducible.

Runs inside `docker build` with the Python of the installer's stage, of the image's version (standard library only):
    install_layer.py NAME
The plan holds requirements.txt and trims.json of the layer; the kit is the root of the installer stage (uv, strip).
Two runs on different days write the same bytes: fixed file times, byte code after that, no caches.
"""

import compileall
import json
import os
import py_compile
import subprocess
import sys
from pathlib import Path

from file_times import FILE_TIME, set_times
from pip_settings import index_options, uv_environment

ENVIRONMENT = Path("/opt/env")
SITE = next(ENVIRONMENT.glob("lib/python3*/site-packages"))
PLAN, KIT, CACHE = Path("/build/plan"), Path("/build/kit"), Path("/build/cache")  # mounts of the step
TRIMMED = Path("/opt/base/trimmed")
# The hashes decide which file is taken, so any index may have it.
OPTIONS = (
    "--quiet --index-strategy unsafe-best-match --no-deps --require-hashes --only-binary :all: --no-compile-bytecode "
    "--python /opt/env/bin/python"
)


def install(requirements: Path, *options: str) -> None:
    """Install locked packages by hash, with the package cache outside the image. options: further ones of uv."""
    environment = uv_environment() | {"UV_CACHE_DIR": str(CACHE)}
    command = [KIT / "opt/installer/bin/uv", "pip", "install", *OPTIONS.split(), *index_options(), *options]
    subprocess.run([*command, "-r", str(requirements)], check=True, env=environment)


def run_tool(name: str, *arguments: str | Path) -> str:
    """Run a program of the installer's stage, which alone has it, with the libraries of that stage."""
    libraries = ":".join(map(str, KIT.glob("usr/lib/*-linux-gnu")))
    command, environment = [KIT / "usr/bin" / name, *arguments], os.environ | {"LD_LIBRARY_PATH": libraries}
    return subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout.strip()


def search_before_environment(path: Path) -> None:
    """Let a library search its own folders before LD_LIBRARY_PATH (ld.so(8)): DT_RUNPATH becomes DT_RPATH."""
    folders = run_tool("patchelf", "--print-rpath", path)
    run_tool("patchelf", "--force-rpath", "--set-rpath", folders, path)


def libraries(patterns: list[str]) -> list[Path]:
    """Return the real files that match the globs."""
    return [path for pattern in patterns for path in SITE.glob(pattern) if not path.is_symlink()]


def trim(rules: list[dict], report: Path) -> None:
    """Apply the trim rules, and report files and bytes saved by rule."""
    entries = []
    for rule in rules:
        found = {path for pattern in rule.get("remove", []) for path in SITE.glob(pattern)}  # patterns may overlap
        gone = sorted(path for path in found if not path.is_dir())
        stripped = libraries(rule.get("strip", []))
        bound = libraries(rule.get("bind", []))
        before = sum(path.lstat().st_size for path in gone + stripped)
        for path in gone:
            path.unlink()
        for path in stripped:  # debug information and local symbols; what the loader needs stays
            run_tool("strip", "--strip-unneeded", path)
        for path in bound:
            search_before_environment(path)
        saved = before - sum(path.stat().st_size for path in stripped)
        entries.append({"reason": rule["reason"], "files": len(gone) + len(stripped) + len(bound), "bytes": saved})
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(json.dumps(entries, indent=1) + "\n")


def main() -> None:
    """Install, trim, compile, date."""
    if not (PLAN / "requirements.txt").read_text().strip():
        return
    install(PLAN / "requirements.txt")
    (ENVIRONMENT / ".lock").unlink(missing_ok=True)  # the installer's, and anybody could write to it
    trim(json.loads((PLAN / "trims.json").read_text()), TRIMMED / f"{sys.argv[1]}.json")
    set_times([ENVIRONMENT], since=FILE_TIME + 1)
    compileall.compile_dir(SITE, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    set_times([Path("/opt")], since=FILE_TIME + 1)


if __name__ == "__main__":
    main()
