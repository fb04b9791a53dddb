"""How a request for a change is opened, found and closed: plain git, GitHub and GitLab behind one interface."""

from __future__ import annotations

from typing import Any, Protocol

from fleetkit.children import Child, FleetError, HostRule


class Host(Protocol):
    """What the fleet tool needs of a host."""

    def request(self, branch: str, base: str, title: str, text: str, draft: bool) -> str:
        """Open a request from `branch` to `base`, or refresh the open one; return its address."""

    def close(self, branch: str) -> None:
        """Close the open request of `branch`, if there is one."""


class PlainGit:
    """A host without requests: the pushed branch is all there is."""

    def request(self, branch: str, base: str, title: str, text: str, draft: bool) -> str:
        """Return no address."""
        return ""

    def close(self, branch: str) -> None:
        """Do nothing."""


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

    def _open(self, branch: str) -> Any:
        self.repository = self.github.get_repo(self.path)
        owner = self.path.split("/")[0]
        return next(iter(self.repository.get_pulls(state="open", head=f"{owner}:{branch}")), None)

    def request(self, branch: str, base: str, title: str, text: str, draft: bool) -> str:
        """Open a pull request, or refresh the text of the open one."""
        pull = self._open(branch)
        if pull is None:
            pull = self.repository.create_pull(base=base, head=branch, title=title, body=text, draft=draft)
        else:
            pull.edit(title=title, body=text)
        return str(pull.html_url)

    def close(self, branch: str) -> None:
        """Close the open pull request."""
        pull = self._open(branch)
        if pull is not None:
            pull.edit(state="closed")


class GitLab:
    """GitLab by python-gitlab; a draft is a request whose title says so."""

    def __init__(self, child: Child, rule: HostRule) -> None:
        import gitlab

        self.project = gitlab.Gitlab(rule.api or None, private_token=rule.token(), timeout=30).projects.get(
            project_path(child, rule), lazy=True
        )

    def _open(self, branch: str) -> Any:
        return next(iter(self.project.mergerequests.list(state="opened", source_branch=branch, get_all=False)), None)

    def request(self, branch: str, base: str, title: str, text: str, draft: bool) -> str:
        """Open a merge request, or refresh the text of the open one."""
        title = f"Draft: {title}" if draft else title
        found = self._open(branch)
        if found is None:
            found = self.project.mergerequests.create(
                {"source_branch": branch, "target_branch": base, "title": title, "description": text}
            )
        else:
            found.title, found.description = title, text
            found.save()
        return str(found.web_url)

    def close(self, branch: str) -> None:
        """Close the open merge request."""
        found = self._open(branch)
        if found is not None:
            found.state_event = "close"
            found.save()


def connect(child: Child, rule: HostRule) -> Host:
    """Return the host of a child. Raises FleetError for a kind that does not exist or a missing token."""
    if rule.kind == "git":
        return PlainGit()
    if rule.kind == "github":
        return GitHub(child, rule)
    if rule.kind == "gitlab":
        return GitLab(child, rule)
    raise FleetError(f"{child.name}: there is no host {rule.kind!r}: it needs git, github or gitlab")
