"""Which requests of this tool are open in the fleet, told by the hosts: an empty folder counts them too."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from fleetkit.branches import UPDATE, brings_nothing, is_merged, remote_refs
from fleetkit.children import Child, Fleet, shown
from fleetkit.hosts import connect
from fleetkit.requests import kind_of
from fleetkit.state import ADOPTIONS, LOCKS, State

AT_ONCE = 8  # hosts' answers that are waited for together


def _open_in(state: State, fleet: Fleet, child: Child) -> list[str]:
    rule = fleet.host_of(child)
    if rule.kind != "git":
        return [one.branch for one in connect(child, rule).opened()]
    # Plain git has no requests: the newest branch of each kind waits until the child has what it brings.
    ours = [one for one in remote_refs(state, child).branches if one.startswith(UPDATE) and kind_of(one) != "revert"]
    return list({kind_of(one): one for one in ours if _waits(state, child, one)}.values())


def _waits(state: State, child: Child, branch: str) -> bool:
    if kind_of(branch) == LOCKS:
        return not brings_nothing(state, child, branch)
    return not is_merged(state, child, branch.removeprefix(UPDATE).removeprefix(ADOPTIONS))


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
