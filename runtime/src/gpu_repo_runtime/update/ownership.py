"""Whose is a file of a child? Read from the child's own list, `.copier-ownership.yml`, in the words of .gitignore.

`managed` files are merged by every update, `seed` files are the owner's from the first day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from pathspec import GitIgnoreSpec

OWNERSHIP = ".copier-ownership.yml"
OWNERS = ("seed", "managed")


@dataclass(frozen=True)
class Owners:
    """The list of a child: for each owner, what matches their paths from the child's root."""

    specs: Mapping[str, GitIgnoreSpec]

    def of(self, path: str) -> str | None:
        """Return who owns a path: seed (its owner), managed (the template), or None for what is on no list."""
        return next((owner for owner, spec in self.specs.items() if spec.match_file(path)), None)


def owners(listed: object) -> Owners:
    """Return the owners of a list as YAML gives it; what is not a list gives nothing to anybody."""
    lists = listed if isinstance(listed, dict) else {}
    rooted = {owner: [f"/{str(path).lstrip('/')}" for path in lists.get(owner) or ()] for owner in OWNERS}
    return Owners({owner: GitIgnoreSpec.from_lines(patterns) for owner, patterns in rooted.items()})


def owners_in(folder: Path) -> Owners:
    """Return the owners by the list in a folder, nobody's where it is missing or cannot be read."""
    try:
        return owners(yaml.safe_load((folder / OWNERSHIP).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):  # the list of version 0.1.0 cannot be read for a batch job
        return owners(None)
