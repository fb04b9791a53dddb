"""Copy this package into a repository's own source, where its owner can change it.

usage: python -m gpu_repo_runtime.eject

src/ comes before the installed packages on the path, so the copy is used from then on. Updates do not reach it.
"""

import shutil
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent


def main() -> int:
    """Copy the package to src/ of this folder, whole or not at all; return the exit code."""
    target = Path("src", PACKAGE.name)
    if target.exists():
        print(f"eject: {target} exists already: `git rm -r {target}` goes back to the wheel", file=sys.stderr)
        return 1
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(PACKAGE, part, ignore=shutil.ignore_patterns("__pycache__"))
    part.rename(target)
    print(f"eject: {target} is yours now and replaces wheels/; commit it. Updates do not reach it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
