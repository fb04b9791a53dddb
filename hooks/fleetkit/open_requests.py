"""Which requests of this tool are open in the fleet, told by the hosts: an empty folder counts them too."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from fleetkit.branches import is_merged, remote_refs
from fleetkit.children import Child, Fleet, shown
from fleetkit.hosts import connect
from fleetkit.state import State

AT_ONCE = 8  # hosts' answers that are waited for together
UPDATE, REVERT = "template/", "template/revert-"


def is_update(branch: str) -> bool:
    """Tell whether a branch of this tool carries an update to a version."""
    return branch.startswith(UPDATE) and not branch.startswith(REVERT)


def _open_in(state: State, fleet: Fleet, child: Child) -> list[str]:
    rule = fleet.host_of(child)
    if rule.kind != "git":
        return connect(child, rule).open_branches()
    # Plain git has no requests: the branch of an update waits until the child follows its version.
    waiting = [branch for branch in remote_refs(state, child) if is_update(branch)]
    return [one for one in waiting if not is_merged(state, child, one.removeprefix(UPDATE))][-1:]


def open_in_fleet(state: State, fleet: Fleet) -> dict[str, list[str]]:
    """Return the branches of the open requests of each child.

    A child that cannot be asked counts as one open request, or an answer that got lost would make room for one more.
    """

    def one(child: Child) -> list[str]:
        try:
            return _open_in(state, fleet, child)
        except Exception as error:
            if child.paused:
                return []
            print(
                f"fleet: {child.name} does not tell its open requests and counts as one: {shown(str(error))}",
                file=sys.stderr,
            )
            return [""]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip((child.name for child in fleet.children), pool.map(one, fleet.children), strict=True))
