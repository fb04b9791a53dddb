"""Whose a file of a child is, by the list that the child carries."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml
from pathspec import GitIgnoreSpec

ANSWERS = ".copier-answers.yml"
LISTS = ".copier-ownership.yml"
Lists = dict[str, dict[str, str]]


def read_lists(folder: Path) -> Lists:
    """Return the lists of a rendered child; empty ones where they cannot be read (version 0.1.0, a batch job)."""
    try:
        found = yaml.safe_load((folder / LISTS).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


@cache
def spec(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    """Return what matches the patterns of a list, each from the root of the child."""
    return GitIgnoreSpec.from_lines(f"/{pattern}" for pattern in patterns)


def owner_of(lists: Lists, path: str) -> str | None:
    """Return who owns a file by the child's own list: managed, seed or nobody."""
    for owner in ("seed", "managed"):
        if spec(tuple(lists.get(owner) or {})).match_file(path):
            return owner
    return None
