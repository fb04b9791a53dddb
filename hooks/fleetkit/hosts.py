"""How a request for a change is opened, found, judged and closed: plain git, GitHub and GitLab behind one interface."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from fleetkit.children import Child, FleetError, HostRule
from fleetkit.github_host import GitHub
from fleetkit.gitlab_host import GitLab
from fleetkit.requests import Look, Opened


class Host(Protocol):
    """What the fleet tool needs of a host."""

    def request(self, branch: str, base: str, title: str, text: str, draft: bool, reviewer: str = "") -> str:
        """Open a request from `branch` to `base`, or refresh the open one; return its address."""

    def closed(self, branch: str) -> str:
        """Return the address of the request of `branch` that a person closed without merging it, else nothing."""

    def close(self, branch: str) -> bool:
        """Close the open request of `branch`; return whether there was one."""

    def look(self, branch: str) -> Look:
        """Return how the request of `branch` fares."""

    def merge_when_green(self, branch: str, commit: str) -> str:
        """Merge the open request of `branch`, or let its host do so once it is green; return what was done."""

    def opened(self) -> list[Opened]:
        """Return the open requests of this tool."""

    def reminded(self, branch: str) -> datetime | None:
        """Return when the open request of `branch` got its last reminder."""

    def remind(self, branch: str, text: str) -> None:
        """Write a comment under the open request of `branch`."""


class PlainGit:
    """A host without requests: the pushed branch is all there is."""

    def request(self, branch: str, base: str, title: str, text: str, draft: bool, reviewer: str = "") -> str:
        """Return no address."""
        return ""

    def closed(self, branch: str) -> str:
        """Return nothing."""
        return ""

    def close(self, branch: str) -> bool:
        """Do nothing."""
        return False

    def look(self, branch: str) -> Look:
        """Return that nothing is known."""
        return Look()

    def merge_when_green(self, branch: str, commit: str) -> str:
        """Do nothing."""
        return ""

    def opened(self) -> list[Opened]:
        """Return none."""
        return []

    def reminded(self, branch: str) -> datetime | None:
        """Return that there was none."""
        return None

    def remind(self, branch: str, text: str) -> None:
        """Do nothing."""


def project_path(child: Child, rule: HostRule) -> str:
    """Return `owner/name`: what follows the host in the child's address, https or ssh."""
    return child.place.removeprefix(rule.match).strip("/").removesuffix(".git")


def connect(child: Child, rule: HostRule) -> Host:
    """Return the host of a child. Raises FleetError for a kind that does not exist or a missing token."""
    if rule.kind == "git":
        return PlainGit()
    if rule.kind == "github":
        return GitHub(project_path(child, rule), rule)
    if rule.kind == "gitlab":
        return GitLab(project_path(child, rule), rule)
    raise FleetError(f"{child.name}: there is no host {rule.kind!r}: it needs git, github or gitlab")
