"""Answers that somebody changed in the answers file by hand: they count as given with --answer.

The history of the file has the answers that it held before, with the same version. Those with which most of the child's
files agree are the ones that the files were rendered with: after a switch that was made, these are the new ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .answers import ANSWERS
from .file_states import Entry, entries, entry_at
from .git_calls import call, prefix_of

LOOKED_AT = 200  # commits that changed the answers file
TRIED = 6  # sets of answers: each is rendered
CUT = 60  # characters of an answer in a message


@dataclass(frozen=True)
class Recorded:
    """The answers that a child's files were rendered with, their text, and what its owner answered since by hand."""

    text: str
    answers: dict[str, Any]
    changed: dict[str, Any]
    note: str = ""


def recorded(
    child: Path, text: str, asked: set[str], render: Callable[[dict[str, Any], Path], None], folder: Path
) -> Recorded:
    """Return what the child's files were rendered with. `render` renders the child's version with answers."""
    now = dict(yaml.safe_load(text))
    tried = [(text, now), *earlier(child, now, asked)]
    if len(tried) == 1:
        return Recorded(text, now, {})
    agreeing = []
    for number, (_, answers) in enumerate(tried):
        place = folder / f"answers-{number}"
        with suppress(Exception):  # answers that the version does not take: no file was rendered with them
            render(answers, place)
        agreeing.append(agreement(place, child))
    before_text, before = tried[agreeing.index(max(agreeing))]
    changed = {name: now[name] for name in sorted(asked & set(now)) if now[name] != before.get(name)}
    kept = {name: before[name] for name in sorted(asked & set(before)) if name not in now}
    return Recorded(before_text, before, changed, told(before, changed, kept))


def earlier(child: Path, now: dict[str, Any], asked: set[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return other answers that the child had with the same version, and the text of each, the newest first."""
    listed = call(child, "rev-list", "--full-history", f"--max-count={LOOKED_AT}", "HEAD", "--", ANSWERS)
    names = [f"{commit}:{prefix_of(child)}{ANSWERS}" for commit in listed.stdout.decode().split()]
    seen, found = [of(now, asked)], []
    for text in texts_of(child, names):
        with suppress(yaml.YAMLError, RecursionError):
            answers = yaml.safe_load(text)
            if not isinstance(answers, dict) or answers.get("_commit") != now["_commit"]:
                continue
            if of(answers, asked) not in seen:
                seen.append(of(answers, asked))
                found.append((text, answers))
    return found if len(found) < TRIED else [*found[: TRIED - 2], found[-1]]


def of(answers: dict[str, Any], asked: set[str]) -> dict[str, Any]:
    """Return the answers to questions of the template."""
    return {name: value for name, value in answers.items() if name in asked}


def texts_of(child: Path, names: list[str]) -> list[str]:
    """Return the texts of files that git holds, each once; what it does not have, or is not UTF-8, is left out."""
    told, found = call(child, "cat-file", "--batch", stdin="".join(f"{name}\n" for name in names).encode()).stdout, []
    while told:
        head, _, told = told.partition(b"\n")
        if head.endswith(b" missing"):
            continue
        size = int(head.split()[-1])
        with suppress(UnicodeDecodeError):
            found.append(told[:size].decode())
        told = told[size + 1 :]
    return list(dict.fromkeys(found))


def agreement(rendered: Path, child: Path) -> int:
    """Return how many of the rendered files the child has as they are, line ends aside, less those that it lacks."""
    if not rendered.is_dir():
        return -sys.maxsize
    return sum(alike(entry, entry_at(child / path)) for path, entry in entries(rendered).items() if path != ANSWERS)


def alike(one: Entry, other: Entry | None) -> int:
    """Return 1 for two files that hold the same, line ends aside, 0 for others, and -1 where the second is missing."""
    if other is None:
        return -1
    return int(one.text.replace(b"\r\n", b"\n") == other.text.replace(b"\r\n", b"\n"))


def told(before: dict[str, Any], changed: dict[str, Any], kept: dict[str, Any]) -> str:
    """Return the sentence about what was changed by hand, "" where nothing was."""
    words = [f"{name} from {short(before.get(name))} to {short(value)}" for name, value in changed.items()]
    words += [f"{name} (no line), which stays {short(value)}" for name, value in kept.items()]
    return f"{ANSWERS} was changed by hand: {', '.join(words)}; this is as with --answer" if words else ""


def short(value: object) -> str:
    """Return an answer for a message."""
    text = "none" if value is None else str(value)
    return text if len(text) <= CUT else f"{text[:CUT]}…"
