"""Which paths lead to the same file."""

import os
from collections.abc import Sequence
from pathlib import Path

from pyarrow import fs

from .messages import say


def once(paths: Sequence[tuple[fs.FileSystem, str]]) -> list[int]:
    """Return the places of the paths to read: where several lead to one file, one of them, that is no link if possible.

    A link to a file that the input holds itself is that file, and a folder is one folder however it is reached. A link
    out of the input is a file of its own, also where another link leads to the same place: git-annex and DVC keep
    files of the same content once.
    """
    own = [(filesystem.type_name, _in_its_folder(filesystem, path)) for filesystem, path in paths]
    held = set(own)
    found: dict[tuple[str, str], int] = {}
    again = []
    for place, (filesystem, path) in enumerate(paths):
        real = filesystem.type_name, real_path(filesystem, path)
        key = real if real in held else own[place]
        if key not in found:
            found[key] = place
            continue
        is_link = path != real[1]
        again.append(path if is_link else paths[found[key]][1])
        found[key] = found[key] if is_link else place
    if again:
        say(f"{len(again)} more paths lead to files that are read already, as {again[0]}: each is read once")
    return sorted(found.values())


def real_path(filesystem: fs.FileSystem, path: str) -> str:
    """Return the path behind all links."""
    return os.path.realpath(path) if isinstance(filesystem, fs.LocalFileSystem) else path


def _in_its_folder(filesystem: fs.FileSystem, path: str) -> str:
    """Return the path behind the links of its folder."""
    if not isinstance(filesystem, fs.LocalFileSystem):
        return path
    folder, name = os.path.split(path)
    return str(Path(os.path.realpath(folder)) / name)
