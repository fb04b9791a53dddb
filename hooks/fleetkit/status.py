"""Where each child stands, and whether the canaries let the next wave go."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from gpu_repo_runtime.update.git import Git
from gpu_repo_runtime.update.releases import number
from gpu_repo_runtime.update.render import read_answers

from fleetkit.access import shallow_clone
from fleetkit.fleet_file import Child
from fleetkit.hosts import BRANCHES, connect
from fleetkit.push import followed
from fleetkit.rows import Row

QUIET = {"none": "no CI reports on it: it counts once it is merged", "waiting": "its CI has not finished"}
FIRST = "no canary has it: run `make fleet-push CANARY=1` first"


def status_child(child: Child, to: str = "") -> Row:
    """Return a child's version, its open request (that of release `to`, else the newest) and what CI says of it."""
    with tempfile.TemporaryDirectory(prefix="fleet-") as place:
        bare = Path(child.url)
        git = Git(bare) if bare.is_dir() else shallow_clone(child, Path(place, "child"))
        version, head = followed(read_answers(git)), git.text("rev-parse", "HEAD")
    if to and number(version) >= number(to):
        return Row(child.name, "merged", version)
    host = connect(child)
    open_requests = [one for one in host.requests(BRANCHES + to if to else "") if one.state == "open"]
    if not open_requests:
        return Row(child.name, "no request", version)
    newest = max(open_requests, key=lambda request: number(request.version))
    checks = host.checks(newest.commit)
    row = Row(child.name, "draft" if newest.draft else "open", version, newest.url, checks=checks.state)
    if checks.state == "red":
        row.reason = f"red: {', '.join(checks.failing)}"
        if host.checks(head).state == "red":  # it says nothing about this release
            row.checks, row.reason = "red before", f"{row.reason}; the default branch is red too"
    if len(open_requests) > 1:
        row.reason = "; ".join(filter(None, [row.reason, f"{len(open_requests) - 1} older open"]))
    return row


def wave_opens(canaries: Sequence[Row]) -> tuple[bool, str]:
    """Tell whether the children after the canaries may have a release, and why.

    One canary that is green or merged opens it, one that is red by the release's own fault keeps it shut. A canary that
    waits, needs hands, was red before or does not answer is quiet, and stops nobody.
    """
    good = [row.name for row in canaries if row.state == "merged" or (row.state == "open" and row.checks == "green")]
    red = [f"{row.name} ({row.reason})" for row in canaries if row.state == "open" and row.checks == "red"]
    quiet = [
        f"{row.name} ({row.reason or QUIET.get(row.checks, row.state)})"
        for row in canaries if row.name not in good and f"{row.name} ({row.reason})" not in red
    ]  # fmt: skip
    more = f"; not counted: {', '.join(quiet)}" if quiet else ""
    if red:
        return False, f"a canary is red: {', '.join(red)}{more}"
    if canaries and all(row.state == "no request" for row in canaries):
        return False, FIRST
    if canaries and not good:
        return False, f"no canary is green or merged yet{more}"
    return True, f"canaries good: {', '.join(good)}{more}" if canaries else "no canaries"
