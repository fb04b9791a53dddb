"""What the fleet tool writes into a request and reads there again, and how the request fares on its host."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

OURS = re.compile(r"(?m)^<!-- fleet: (\S+) -->$")
TAKEN_BACK = "<!-- fleet: taken-back -->"
RED = {"failure", "error", "timed_out", "action_required", "startup_failure", "failed", "canceled", "cancelled"}
RUNNING = {
    "",
    "pending",
    "queued",
    "in_progress",
    "requested",
    "waiting",
    "created",
    "preparing",
    "running",
    "scheduled",
}


@dataclass(frozen=True)
class Look:
    """How a request fares: merged, green, red, waiting, closed (by a person), "" for none; since when it does."""

    state: str = ""
    since: datetime | None = None
    started: bool = False


def verdict(told: Iterable[str]) -> tuple[str, bool]:
    """Return green, red or waiting for what the checks of a commit say, and whether any has been started."""
    said = set(told)
    if said & RED:
        return "red", True
    return ("waiting" if not said or said & RUNNING else "green"), bool(said)


def signed(text: str, branch: str) -> str:
    """Return the text of a request with the line by which a later run knows it, from an empty folder too."""
    return f"{text.rstrip()}\n\n<!-- fleet: {branch} -->\n"


def signed_for(text: str | None) -> str:
    """Return the branch of a request that this tool made, "" where another made it."""
    found = OURS.search(text or "")
    return found[1] if found else ""


def is_older(text: str | None, branch: str) -> bool:
    """Tell whether this is the text of an update's request for another version."""
    theirs = signed_for(text)
    return theirs not in ("", branch) and "/revert-" not in theirs + branch


def closed_by_a_person(text: str | None) -> bool:
    """Tell whether a closed request was not closed by this tool."""
    return TAKEN_BACK not in (text or "")
