"""What the fleet needs of a code host, and the branches of a bare repository where there is no host."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpu_repo_runtime.update.git import Git, UpdateError

from fleetkit.fleet_file import Child
from fleetkit.request_text import is_draft

BRANCHES = "template/"  # branches below it are this tool's
RED = {"failure", "error", "timed_out", "action_required", "startup_failure", "failed", "canceled", "cancelled"}
GREEN = {"success", "neutral", "skipped"}  # another word, today or one day, is not green


@dataclass(frozen=True)
class Request:
    """A pull or merge request of this tool; `state` is open, closed or merged."""

    branch: str
    state: str
    draft: bool
    commit: str
    url: str
    number: int = 0

    @property
    def version(self) -> str:
        """Return the release that it brings."""
        return self.branch.removeprefix(BRANCHES)


@dataclass(frozen=True)
class Checks:
    """What the child's own CI says of a commit: green, red, waiting or none; `failing` names what is red."""

    state: str = "none"
    failing: tuple[str, ...] = ()


def verdict(said: Iterable[tuple[str, str]]) -> Checks:
    """Return the sum of checks, each a name and its state."""
    states = dict(said)
    failing = tuple(sorted(name for name, state in states.items() if state in RED))
    if failing:
        return Checks("red", failing)
    return Checks("none" if not states else "green" if set(states.values()) <= GREEN else "waiting")


class Host(Protocol):
    """Requests of one repository."""

    def requests(self, branch: str = "") -> list[Request]:
        """Return the open requests of this tool, or all that a branch ever had, the newest first."""

    def conflicts(self, request: Request) -> bool:
        """Tell whether an open request can no longer be merged."""

    def open(self, branch: str, base: str, title: str, text: str, draft: bool) -> Request:
        """Open a request, a draft where asked and possible."""

    def refresh(self, request: Request, title: str, text: str, draft: bool) -> None:
        """Give an open request the text of its new commit."""

    def close(self, request: Request, reason: str) -> None:
        """Close an open request with a comment."""

    def checks(self, commit: str) -> Checks:
        """Return the state of the checks of a commit."""


class BareRepository:
    """A bare repository on this machine: a branch is a request, and a commit says itself whether it is a draft."""

    def __init__(self, folder: Path) -> None:
        self.git = Git(folder)

    def requests(self, branch: str = "") -> list[Request]:
        """Return a request for each branch of this tool: merged where the default branch has its commit."""
        listing = ("for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", f"refs/heads/{branch or BRANCHES}")
        merged, found = self.git.text(*listing, "--merged=HEAD").splitlines(), []
        for row in self.git.text(*listing).splitlines():
            (commit, name), state = row.split(" ", 1), "merged" if row in merged else "open"
            draft = is_draft(self.git.text("show", "--no-patch", "--format=%B", commit))
            found.append(Request(name, state, draft, commit, f"branch {name}"))
        return found if branch else [one for one in found if one.state == "open"]

    def conflicts(self, request: Request) -> bool:
        """Merge in memory."""
        return self.git.run("merge-tree", "--write-tree", "HEAD", request.commit).returncode == 1

    def open(self, branch: str, base: str, title: str, text: str, draft: bool) -> Request:
        """Return the branch; it was pushed before."""
        return self.requests(branch)[0]

    def refresh(self, request: Request, title: str, text: str, draft: bool) -> None:
        """Do nothing: the commit says it all."""

    def close(self, request: Request, reason: str) -> None:
        """Do nothing: the branch is deleted by whoever closes it."""

    def checks(self, commit: str) -> Checks:
        """Return that nothing is known."""
        return Checks()


def connect(child: Child) -> Host:
    """Return the host of a child. Raises UpdateError for an address that no host of fleet.yml begins."""
    if child.host is None:
        if Path(child.url).is_dir():
            return BareRepository(Path(child.url))
        raise UpdateError(f"no host in fleet.yml has the address that {child.url} starts with: add it")
    if child.host.kind == "github":
        from fleetkit.github_host import GitHub

        return GitHub(child.path, child.host)
    from fleetkit.gitlab_host import GitLab

    return GitLab(child.path, child.host)
