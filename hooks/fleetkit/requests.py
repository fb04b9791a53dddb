"""What the fleet tool writes into a request and reads there again, and how the request fares on its host."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from fleetkit.children import FleetError

OURS = re.compile(r"(?m)^<!-- fleet: (template/\S+) -->\s*$")
DRAFT = "<!-- fleet: draft -->"  # this tool made it a draft, and no person
TAKEN_BACK = "<!-- fleet: taken-back -->"
REFUSED = "not merged: "
REMINDER = "<!-- fleet: reminder -->"
ADOPTION = "adopt"  # the kind of a branch by which a repository joins
RED = {"failure", "error", "timed_out", "action_required", "startup_failure", "failed", "canceled", "cancelled"}
GREEN = {"success", "neutral", "skipped"}  # what a host says besides, today or one day, is not green


@dataclass(frozen=True)
class Look:
    """How a request fares: merged, green, red, waiting, closed (by a person), "" for none; since when it does."""

    state: str = ""
    since: datetime | None = None
    started: bool = False


@dataclass(frozen=True)
class Opened:
    """An open request of this tool: its branch, title and address, since when it is open, who is asked."""

    branch: str
    title: str
    address: str
    since: datetime | None
    draft: bool
    reviewers: tuple[str, ...]

    def days(self, now: datetime) -> int | None:
        """Return for how many whole days it is open."""
        return (now - self.since).days if self.since else None


def branch_in(text: str | None) -> str:
    """Return the branch that the text of a request names; nothing where the request is not one of this tool.

    The line alone proves nothing: anybody can copy a text. Whose request it is says `is_ours` together with it.
    """
    found = OURS.findall(text or "")
    return str(found[-1]) if found else ""  # what a child's file names put above it does not count


def is_ours(text: str | None, branch: str) -> bool:
    """Tell whether a request from `branch` is one of this tool: its text names the branch that it comes from."""
    return bool(branch) and branch_in(text) == branch


def verdict(told: Iterable[str]) -> tuple[str, bool]:
    """Return green, red or waiting for what the checks of a commit say, and whether any has been started."""
    said = set(told)
    if said & RED:
        return "red", True
    return ("green" if said and said <= GREEN else "waiting"), bool(said)


def signed(text: str, branch: str, draft: bool = False) -> str:
    """Return the text of a request with the line by which a later run knows it, from an empty folder too."""
    return f"{text.rstrip()}\n\n<!-- fleet: {branch} -->\n" + f"{DRAFT}\n" * draft


def kind_of(branch: str) -> str:
    """Return what a branch of this tool brings: a revert, locks, an adoption or an update."""
    return next((kind for kind in ("revert", "locks", ADOPTION) if f"/{kind}-" in branch), "update")


def is_older(text: str | None, branch: str) -> bool:
    """Tell whether this is the text of a request that the one of `branch` stands in for: one of the same kind."""
    found = branch_in(text)
    return found not in ("", branch) and kind_of(branch) != "revert" and kind_of(found) == kind_of(branch)


def not_ours(address: str, branch: str) -> FleetError:
    """Return the error for a request that somebody else opened from a branch of this tool."""
    return FleetError(f"{address} comes from its branch {branch} and is not this tool's own: it is left alone")


def closed_by_a_person(text: str | None) -> bool:
    """Tell whether a closed request was not closed by this tool."""
    return TAKEN_BACK not in (text or "")
