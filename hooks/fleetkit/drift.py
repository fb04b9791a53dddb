"""How far each child has drifted: version and its age, image and its end, weaknesses in locks, requests that wait."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from gpu_repo_runtime.update.git_calls import git
from gpu_repo_runtime.update.template_versions import UpdateError, template_of, version_of

from fleetkit.advisories import Advisories
from fleetkit.children import Child, Fleet
from fleetkit.clients import reason
from fleetkit.hosts import connect
from fleetkit.lockfiles import locks_at, pinned
from fleetkit.state import Record, State
from fleetkit.status import place_of, status_of


def released(source: str, name: str) -> datetime | None:
    """Return when a version of the template was made, None where that is not known."""
    try:
        template = template_of(source)
        version = version_of(name)
        commit = template.commit(template.known.get(version, name) if version else name)
        told = git(template.place, "show", "--no-patch", "--format=%cI", commit) if commit else ""
        return datetime.fromisoformat(told.strip()) if told else None
    except (UpdateError, subprocess.CalledProcessError, ValueError):
        return None


def image_end(name: str, catalog: dict[str, Any], today: date) -> Record:
    """Return the last day of an image's fixes and how many days are left, less than none once it is over."""
    row: Record = next((row for row in catalog["images"] if row["name"] == name), {})
    if not row.get("end_of_life"):
        return {}
    last = date.fromisoformat(str(row["end_of_life"]))
    return {"end_of_life": last.isoformat(), "image_days": (last - today).days}


def weaknesses(clone: Path, advisories: Advisories) -> list[Record]:
    """Return what is known of the versions in the locks of a child."""
    held = pinned(list(locks_at(clone, "refs/heads/now").values()))
    found = [
        one for name, versions in sorted(held.items()) for at in sorted(versions) for one in advisories.of(name, at)
    ]
    return [asdict(one) for one in found]


def drift_of(
    state: State, fleet: Fleet, child: Child, catalog: dict[str, Any], advisories: Advisories | None, now: datetime
) -> Record:
    """Return how far one child has drifted; what could not be found out stands under an error of its own."""
    record = status_of(state, child, catalog, fleet.known_hosts())
    if child.paused:
        return record
    source = record.pop("source", "")
    made = released(source, str(record.get("version"))) if source else None
    record["age_days"] = (now - made).days if made else None
    record |= image_end(str(record.get("image", "")), catalog, now.date())
    if record.pop("fetched", False) and advisories is not None:
        try:
            record["weaknesses"] = weaknesses(place_of(state, child), advisories)
        except subprocess.CalledProcessError:  # a lock that is too large to be fetched for a look
            record["error"] = "a lock of it cannot be read, so its packages were not looked up"
    try:
        opened = connect(child, fleet.host_of(child)).opened()
        record["requests"] = [
            {"title": one.title, "address": one.address, "draft": one.draft, "days": one.days(now)} for one in opened
        ]
    except Exception as error:  # one child must not stop the others
        record["requests_error"] = reason(error)
    return record


def summary(records: Iterable[Record], advisories: Advisories | None, now: datetime) -> Record:
    """Return the whole page as data."""
    members = list(records)
    asked = None
    if advisories is not None:
        asked = {"advisories": advisories.count, "unread": advisories.unread, "newest": advisories.newest}
    return {"made": now.astimezone(UTC).isoformat(timespec="seconds"), "advisories": asked, "children": members}
