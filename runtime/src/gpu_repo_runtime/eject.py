"""Copy this package into a repository's own source, where its owner can change it.

usage: python -m gpu_repo_runtime.eject PROJECT

``PROJECT/src`` comes before the installed packages on the path, so the copy is used from then on. Beside it stands
``EJECTED``, which says what was copied: an update compares it with what the new wheel holds.
"""

import hashlib
import importlib.metadata
import json
import os
import shutil
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent
MARK = "EJECTED"


class CannotEject(Exception):
    """The package is not copied; the message says why and what to do."""


def eject(project: Path) -> Path:
    """Copy the package to ``project/src``, whole or not at all; return the folder. Raises CannotEject."""
    target = project / "src" / PACKAGE.name
    if not target.parent.is_dir():
        raise CannotEject(f"{project} has no folder src: run it where your repository is")
    place = target.relative_to(project)
    if target.exists():
        raise CannotEject(f"{place} is there already; `git rm -r {place}` goes back to the wheel")
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        shutil.copytree(PACKAGE, part, ignore=shutil.ignore_patterns("__pycache__"))
        files = {path.relative_to(part).as_posix(): path for path in sorted(part.rglob("*")) if path.is_file()}
        hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
        version = importlib.metadata.version("gpu-repo-runtime")
        text = json.dumps({"version": version, "files": hashes}, indent=2) + "\n"
        (part / MARK).write_text(text, encoding="utf-8")
        os.rename(part, target)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise CannotEject(f"{target} cannot be written: {error.strerror}") from error
    return target


def main() -> int:
    """Copy the package and say what that means."""
    project = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    try:
        target = eject(project)
    except CannotEject as error:
        print(f"eject: {error}", file=sys.stderr)
        return 1
    place = target.relative_to(project)
    print(f"eject: {place} is yours now and is used in place of wheels/; commit it.")
    print("eject: updates go on bringing wheels, whose fixes do not reach it: scripts/update names what you miss.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
