"""The answers file of a child: read whole, and written so that nothing of its owner is lost from it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from .git_calls import UpdateError, call

ANSWERS = ".copier-answers.yml"
SOURCE = re.compile(r"(?m)^_src_path:.*(?:\n[ \t]+.*)*")
FOLLOWED = re.compile(r"(?m)^_commit:.*(?:\n[ \t]+.*)*")
HASH = re.compile(r"(?m)^# The template's commit: ([0-9a-f]{40,64})$")
KEY = re.compile(r"(\w[\w-]*):")
COMMENT = re.compile(r"(?:^|(?<=[ \t]))#")
Place = tuple[str, str]
END: Place = ("", "")


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


def from_child(child: Path, source: str) -> str:
    """Return the source of a template with a relative path as it is seen from the child, wherever this is called."""
    return str((child / source).resolve()) if source.startswith(".") and (child / source).exists() else source


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
    """Return answers with the comments of the child's own, each above the line that it was above or behind.

    Where that line is gone it stands above the key, and at the end where that is gone too. `rendered` are the answers
    as the template wrote them, whose comments are the template's.
    """
    known = {comment for _, comment, _ in placed(rendered)}
    there = {place for place, _, _ in placed(text) if place}
    own: dict[Place, list[str]] = {}
    waiting: list[str] = []
    for place, comment, _ in placed(child):
        waiting += [comment] if comment and comment not in known and not HASH.match(comment) else []
        if place:
            key = (place[0], "")
            own.setdefault(place if place in there else key if key in there else END, []).extend(waiting)
            waiting = []
    rows = []
    for place, _, row in placed(text):
        indent = row[: len(row) - len(row.lstrip())]
        rows += [*(f"{indent}{comment}" for comment in (own.pop(place, []) if place else [])), row]
    return "\n".join([*rows, *own.get(END, []), *waiting]) + "\n"


def placed(text: str) -> Iterator[tuple[Place | None, str, str]]:
    """Give the place of each row (its key, and what a row of its value holds), its comment, and the row itself.

    A row of a text in several lines has no place, and nothing in it is a comment.
    """
    spans = [(t.start_mark.index, t.end_mark.index) for t in yaml.scan(text) if isinstance(t, yaml.ScalarToken)]
    starts = [first for first, _ in spans]

    def inside(at: int) -> bool:
        number = bisect_right(starts, at) - 1
        return number >= 0 and at < spans[number][1]

    key, at = "", 0
    for row in text.removesuffix("\n").split("\n"):
        begins = [at + found.start() for found in COMMENT.finditer(row)]
        behind = next((place - at for place in begins if not inside(place)), len(row))
        content, comment = row[:behind].strip(), row[behind:].strip()
        found = KEY.match(row)
        within = inside(at) and at not in starts
        if found and not within:
            key = found[1]
            yield (key, ""), comment, row
        else:
            yield (key, content) if content and not within else None, comment, row
        at += len(row) + 1
