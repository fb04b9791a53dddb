"""Wildcards in the names of the input: those of a shell, and ** for any number of folders."""

import re
from collections.abc import Collection
from pathlib import PurePosixPath

from .addresses import masked
from .messages import say


def as_regex(pattern: str) -> re.Pattern[str]:
    """Translate the wildcards *, ?, [...], [!...] and ** (any number of folders) into a regular expression."""
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    tokens = re.split(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\])", pattern)
    return re.compile("".join(parts.get(token) or _one_of(token) or re.escape(token) for token in tokens), re.DOTALL)


def _one_of(token: str) -> str:
    """Return the regular expression for [...], which stands for one character and never for a slash, or ""."""
    if not re.fullmatch(r"\[.+\]", token):
        return ""
    inside = token[1:-1]
    negated = inside.startswith("!") and len(inside) > 1
    characters = re.sub(r"([\\\[\]^&~|])", r"\\\1", inside[1:] if negated else inside)
    return f"(?!/)[{'^' if negated else ''}{characters}]"


def folders_of(path: str, base: str) -> list[str]:
    """Return the folders between a file and the one that a wildcard begins in."""
    return [
        str(folder) for folder in PurePosixPath(path).parents if folder.is_relative_to(base) and str(folder) != base
    ]


def say_folders(location: str, folders: Collection[str]) -> None:
    """Say of folders to which a wildcard leads that they are not read, as a shell would have it; nobody else would."""
    if folders and "**" not in location:
        shown = masked(location)
        say(f"folders that {shown} leads to are not read ({len(folders)}): {shown}/** is what is in them")
