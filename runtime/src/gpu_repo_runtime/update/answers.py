"""The answers file of a child: read whole, and written so that nothing of its owner is lost from it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from .git_calls import UpdateError, call

ANSWERS = ".copier-answers.yml"
SOURCE = re.compile(r"(?m)^_src_path:.*(?:\n[ \t]+.*)*")
FOLLOWED = re.compile(r"(?m)^_commit:.*(?:\n[ \t]+.*)*")
HASH = re.compile(r"(?m)^# The template's commit: ([0-9a-f]{40,64})$")
KEY = re.compile(r"(\w[\w-]*):")
BEHIND = re.compile(r"[ \t]+(#.*)$")


def read_answers(child: Path) -> dict[str, Any]:
    """Return the answers of a child. Raises UpdateError when they are not whole."""
    try:
        answers = yaml.safe_load((child / ANSWERS).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UpdateError(
            f"{child} has no {ANSWERS}: it was not made from a template, or the file was deleted"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UpdateError(f"{ANSWERS} cannot be read: restore it with 'git checkout' from a good commit") from error
    for key in ("_commit", "_src_path"):
        if not isinstance(answers, dict) or not isinstance(answers.get(key), str):
            raise UpdateError(f"{ANSWERS} lacks {key}: restore it with 'git checkout' from a good commit")
    return dict(answers)


def check_answers_file(child: Path) -> None:
    """Raise UpdateError where the answers file is a link, or one that git does not keep."""
    if (child / ANSWERS).is_symlink():
        raise UpdateError(f"{ANSWERS} is a link: put the file itself there, and commit it")
    if (child / ANSWERS).exists() and call(child, "cat-file", "-e", f"HEAD:./{ANSWERS}").returncode:
        raise UpdateError(f"{ANSWERS} is not in git: git add --force {ANSWERS}, and commit it")


def rendered_answers(folder: Path) -> dict[str, Any]:
    """Return the answers that a version wrote into a new rendering, {} where it wrote none."""
    path = folder / ANSWERS
    answers = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None
    return dict(answers) if isinstance(answers, dict) else {}


def line(name: str, value: str) -> str:
    """Return `name: value` as YAML on one line."""
    return yaml.safe_dump({name: value}, width=float("inf"), allow_unicode=True).rstrip("\n")


def following(text: str, source: str, commit: str) -> str:
    """Return answers that name another source and commit: what Copier works with."""
    named = SOURCE.sub(lambda _: line("_src_path", source), text)
    return FOLLOWED.sub(lambda _: line("_commit", commit), named)


def with_source_of(text: str, child: str) -> str:
    """Return answers with the source that the child's own answers name, letter by letter."""
    found = SOURCE.search(child)
    return SOURCE.sub(lambda _: found[0], text) if found else text


def with_own_keys(text: str, child: str, asked: set[str]) -> str:
    """Return answers with the keys of the child's own that no version of the template asks for.

    Names that begin with `_` are Copier's: an old one of them would say something else than what was rendered.
    """
    ours, new = yaml.safe_load(child), yaml.safe_load(text)
    theirs = {*new, *asked}
    own = {key: value for key, value in ours.items() if key not in theirs and not str(key).startswith("_")}
    if not own:
        return text
    return text.rstrip("\n") + "\n" + yaml.safe_dump(own, allow_unicode=True, sort_keys=False)


def with_own_comments(text: str, child: str, rendered: str) -> str:
    """Return answers with the comments of the child's own, each above the key that it was above or behind.

    `rendered` are the answers as the template wrote them, whose comments are the template's.
    """
    known = {line.strip() for line in rendered.splitlines()}
    own: dict[str, list[str]] = {}  # the key that they belong to, "" at the end
    waiting: list[str] = []
    for row in child.splitlines():
        key, behind = KEY.match(row), BEHIND.search(row)
        if row.lstrip().startswith("#"):
            waiting += [] if row.strip() in known or HASH.match(row) else [row.strip()]
        elif key:
            own[key[1]] = waiting + ([behind[1]] if behind and is_comment(row, behind.start()) else [])
            waiting = []
    rows = []
    for row in text.splitlines():
        key = KEY.match(row)
        rows += [*(own.pop(key[1], []) if key else []), row]
    return "\n".join([*rows, *(comment for left in [*own.values(), waiting] for comment in left)]) + "\n"


def is_comment(row: str, start: int) -> bool:
    """Tell whether what begins at `start` is a comment for YAML, and no part of the value."""
    try:
        return bool(yaml.safe_load(row) == yaml.safe_load(row[:start]))
    except yaml.YAMLError:
        return False
