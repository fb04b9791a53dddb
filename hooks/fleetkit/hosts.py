"""How a request for a change is opened, found and closed: plain git, GitHub and GitLab behind one interface."""

from __future__ import annotations

import re
from typing import Any, Protocol

from fleetkit.children import Child, FleetError, HostRule

OURS = re.compile(r"(?m)^<!-- fleet: (\S+) -->$")
TAKEN_BACK = "<!-- fleet: taken-back -->"


def signed(text: str, branch: str) -> str:
    """Return the text of a request with the line by which a later run knows it, from an empty folder too."""
    return f"{text.rstrip()}\n\n<!-- fleet: {branch} -->\n"


def is_older(text: str | None, branch: str) -> bool:
    """Tell whether this is the text of an update's request for another version."""
    found = OURS.search(text or "")
    return found is not None and found[1] != branch and "/revert-" not in found[1] + branch


def closed_by_a_person(text: str | None) -> bool:
    """Tell whether a closed request was not closed by this tool."""
    return TAKEN_BACK not in (text or "")


class Host(Protocol):
    """What the fleet tool needs of a host."""

    def request(self, branch: str, base: str, title: str, text: str, draft: bool) -> str:
        """Open a request from `branch` to `base`, or refresh the open one; return its address."""

    def closed(self, branch: str) -> str:
        """Return the address of the request of `branch` that a person closed without merging it, else nothing."""

    def close(self, branch: str) -> bool:
        """Close the open request of `branch`; return whether there was one."""


class PlainGit:
    """A host without requests: the pushed branch is all there is."""

    def request(self, branch: str, base: str, title: str, text: str, draft: bool) -> str:
        """Return no address."""
        return ""

    def closed(self, branch: str) -> str:
        """Return nothing."""
        return ""

    def close(self, branch: str) -> bool:
        """Do nothing."""
        return False


def project_path(child: Child, rule: HostRule) -> str:
    """Return `owner/name`: what follows the host in the child's address, https or ssh."""
    return child.place.removeprefix(rule.match).strip("/").removesuffix(".git")


class GitHub:
    """GitHub by PyGithub."""

    def __init__(self, child: Child, rule: HostRule) -> None:
        from github import Auth, Github

        options: dict[str, Any] = {"base_url": rule.api} if rule.api else {}
        self.github = Github(auth=Auth.Token(rule.token()), retry=None, timeout=30, **options)
        self.path = project_path(child, rule)

    def _all(self, branch: str) -> list[Any]:
        self.repository = self.github.get_repo(self.path)
        owner = self.path.split("/")[0]
        return list(self.repository.get_pulls(state="all", head=f"{owner}:{branch}"))

    def _open(self, branch: str) -> Any:
        return next((pull for pull in self._all(branch) if pull.state == "open"), None)

    def request(self, branch: str, base: str, title: str, text: str, draft: bool) -> str:
        """Open a pull request, or refresh the text of the open one; close those of other versions."""
        pull, text = self._open(branch), signed(text, branch)
        if pull is None:
            pull = self.repository.create_pull(base=base, head=branch, title=title, body=text, draft=draft)
        else:
            pull.edit(title=title, body=text)
        for other in self.repository.get_pulls(state="open"):
            if is_older(other.body, branch):
                other.edit(state="closed", body=f"{other.body}\n{TAKEN_BACK}\nSuperseded by {pull.html_url}\n")
        return str(pull.html_url)

    def closed(self, branch: str) -> str:
        """Return the pull request that a person closed."""
        pulls = self._all(branch)
        found = [pull for pull in pulls if not pull.merged_at and closed_by_a_person(pull.body)]
        return str(found[0].html_url) if found and all(pull.state == "closed" for pull in pulls) else ""

    def close(self, branch: str) -> bool:
        """Close the open pull request."""
        pull = self._open(branch)
        if pull is not None:
            pull.edit(state="closed", body=f"{pull.body or ''}\n{TAKEN_BACK}\n")
        return pull is not None


class GitLab:
    """GitLab by python-gitlab; a draft is a request whose title says so."""

    def __init__(self, child: Child, rule: HostRule) -> None:
        import gitlab

        self.project = gitlab.Gitlab(rule.api or None, private_token=rule.token(), timeout=30).projects.get(
            project_path(child, rule), lazy=True
        )

    def _all(self, branch: str) -> list[Any]:
        return list(self.project.mergerequests.list(source_branch=branch, get_all=True))

    def _open(self, branch: str) -> Any:
        return next((found for found in self._all(branch) if found.state == "opened"), None)

    def _close(self, found: Any, why: str) -> None:
        found.state_event, found.description = "close", f"{found.description or ''}\n{TAKEN_BACK}\n{why}"
        found.save()

    def request(self, branch: str, base: str, title: str, text: str, draft: bool) -> str:
        """Open a merge request, or refresh the text of the open one; close those of other versions."""
        title, text = f"Draft: {title}" if draft else title, signed(text, branch)
        found = self._open(branch)
        if found is None:
            found = self.project.mergerequests.create(
                {"source_branch": branch, "target_branch": base, "title": title, "description": text}
            )
        else:
            found.title, found.description = title, text
            found.save()
        for other in self.project.mergerequests.list(state="opened", get_all=True):
            if is_older(other.description, branch):
                self._close(other, f"Superseded by {found.web_url}\n")
        return str(found.web_url)

    def closed(self, branch: str) -> str:
        """Return the merge request that a person closed."""
        every = self._all(branch)
        found = [one for one in every if one.state == "closed" and closed_by_a_person(one.description)]
        return str(found[0].web_url) if found and all(one.state == "closed" for one in every) else ""

    def close(self, branch: str) -> bool:
        """Close the open merge request."""
        found = self._open(branch)
        if found is not None:
            self._close(found, "")
        return found is not None


def connect(child: Child, rule: HostRule) -> Host:
    """Return the host of a child. Raises FleetError for a kind that does not exist or a missing token."""
    if rule.kind == "git":
        return PlainGit()
    if rule.kind == "github":
        return GitHub(child, rule)
    if rule.kind == "gitlab":
        return GitLab(child, rule)
    raise FleetError(f"{child.name}: there is no host {rule.kind!r}: it needs git, github or gitlab")
