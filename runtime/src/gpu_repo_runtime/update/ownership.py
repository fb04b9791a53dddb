"""Whose is a file of a child? Read from the child's own list, `.copier-ownership.yml`, in the words of .gitignore.

`managed` files are merged by every update, `seed` files are the owner's from the first day.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from pathspec import GitIgnoreSpec

OWNERSHIP = ".copier-ownership.yml"
OWNERS = ("seed", "managed")


@dataclass(frozen=True)
class Owners:
    """The list of a child; a pattern begins at the child's root."""

    patterns: Mapping[str, tuple[str, ...]]
    specs: Mapping[str, GitIgnoreSpec]

    def of(self, path: str) -> str | None:
        """Return who owns a path: seed (its owner), managed (the template), or None for what is on no list."""
        return next((owner for owner in OWNERS if owner in self.specs and self.specs[owner].match_file(path)), None)

    def entries_of(self, path: str) -> list[tuple[str, str]]:
        """Return owner and pattern of every entry that matches a path: there should be one."""
        return [
            (owner, pattern)
            for owner, patterns in self.patterns.items()
            for pattern in patterns
            if spec([pattern]).match_file(path)
        ]


def spec(patterns: Iterable[str]) -> GitIgnoreSpec:
    """Return what matches the patterns, each from the root of the child."""
    return GitIgnoreSpec.from_lines(f"/{pattern.lstrip('/')}" for pattern in patterns)


def owners(listed: object) -> Owners:
    """Return the owners of a list as YAML gives it; what is not a list gives nothing to anybody."""
    lists = listed if isinstance(listed, dict) else {}
    patterns = {owner: tuple(str(path) for path in lists.get(owner) or ()) for owner in OWNERS}
    return Owners(patterns, {owner: spec(paths) for owner, paths in patterns.items()})


def owners_in(folder: Path) -> Owners:
    """Return the owners by the list in a folder, nobody's where it is missing or cannot be read."""
    try:
        return owners(yaml.safe_load((folder / OWNERSHIP).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):  # the list of version 0.1.0 cannot be read for a batch job
        return owners(None)
