"""Copying the sources into the image, the same whatever rights the checkout gave them."""

import shutil
from pathlib import Path

FOLDER_MODE, FILE_MODE = 0o755, 0o644


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder's content with fixed modes: those of a checkout follow its umask, the image must not."""
    target.mkdir(parents=True, exist_ok=True)
    target.chmod(FOLDER_MODE)
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(exist_ok=True)
            place.chmod(FOLDER_MODE)
        else:
            shutil.copyfile(path, place)
            place.chmod(FILE_MODE)
