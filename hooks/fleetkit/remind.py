"""Remind those who are asked of a request that is open for long: one comment, and again only after an interval.

When a request got its last reminder is read from its comments, so that an empty folder reminds nobody twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fleetkit.children import Child, Fleet
from fleetkit.clients import reason
from fleetkit.hosts import connect
from fleetkit.requests import REMINDER, Opened
from fleetkit.state import Record

HANDLE = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)*")


@dataclass(frozen=True)
class Patience:
    """How old a request is when it is brought to mind, and after how many days again; `told` False writes nothing."""

    days: float = 7
    every: float = 7
    told: bool = True


def words(request: Opened, owner: str, days: int) -> str:
    """Return the comment: who is asked, by the names that the host knows, and for what."""
    people = dict.fromkeys(name for name in (*request.reviewers, owner) if HANDLE.fullmatch(name))
    called = " ".join(f"@{name}" for name in people)
    todo = "settle its conflict markers and merge it" if request.draft else "merge it"
    age = "a day" if days == 1 else f"{days} days"
    text = f"this request is open for {age}: {todo}, or close it, and it stays closed."
    return f"{called}: {text}\n\n{REMINDER}" if called else f"{text[0].upper()}{text[1:]}\n\n{REMINDER}"


def remind_child(fleet: Fleet, child: Child, patience: Patience) -> Record:
    """Remind of the child's open requests that are due; return which were and why others were not."""
    record: Record = {"name": child.name, "owner": child.owner, "requests": []}
    if child.paused:
        return record | {"outcome": "paused"}
    now = datetime.now(UTC)
    try:
        host = connect(child, fleet.host_of(child))
        for request in host.opened():
            days = request.days(now)
            told: Record = {"address": request.address, "title": request.title, "days": days, "reminded": False}
            record["requests"].append(told)
            if request.since is None or now - request.since < timedelta(days=patience.days):
                continue
            last = host.reminded(request.branch)
            told["last"] = last.isoformat() if last else None
            if last and now - last < timedelta(days=patience.every):
                continue
            if patience.told:
                host.remind(request.branch, words(request, child.owner, days or 0))
            told["reminded"] = True
    except Exception as error:  # one child must not stop the others
        record["error"] = reason(error)
    return record
