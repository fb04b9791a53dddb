"""Stands in for actions/upload-artifact and actions/download-artifact, as far as our workflows use them.

usage: artifacts.py upload|download FOLDER   (inputs come as INPUT_..., FOLDER keeps the artifacts of one run)
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import sys
from pathlib import Path


def given(name: str) -> str:
    """Return an input, "" where it is not given."""
    return os.environ.get(f"INPUT_{name.replace('-', '_').upper()}", "")


def upload(kept: Path) -> int:
    """Keep what is at the paths; its root is their nearest common folder, as in the real one."""
    lines = [line.strip() for line in given("path").splitlines() if line.strip()]
    paths = [Path(line) for line in lines if not line.startswith("!")]
    left_out = [Path(line[1:]) for line in lines if line.startswith("!")]
    root = Path(os.path.commonpath([path.parent if path.is_file() else path for path in paths]))
    found = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    files = [file for file in found if not any(file.is_relative_to(path) for path in left_out)]
    if not files:
        print(f"no files were found at {', '.join(map(str, paths))}")
        return int(given("if-no-files-found") == "error")
    if kept.exists() and given("overwrite") != "true":
        print(f"an artifact {kept.name} exists already")
        return 1
    shutil.rmtree(kept, ignore_errors=True)
    for file in files:
        target = kept / file.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
    return 0


def download(folder: Path) -> int:
    """Bring one artifact, or all whose name fits the pattern."""
    target = Path(given("path") or ".")
    if name := given("name"):
        chosen = [folder / name]
        if not chosen[0].is_dir():
            print(f"artifact not found: {name}")
            return 1
    else:
        assert given("merge-multiple") == "true", "each artifact in a folder of its own: not run here"
        chosen = [one for one in sorted(folder.iterdir()) if fnmatch.fnmatch(one.name, given("pattern") or "*")]
    for one in chosen:
        shutil.copytree(one, target, dirs_exist_ok=True)
    return 0


if __name__ == "__main__":
    home = Path(sys.argv[2])
    home.mkdir(parents=True, exist_ok=True)
    sys.exit(upload(home / given("name")) if sys.argv[1] == "upload" else download(home))
