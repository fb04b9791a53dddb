"""Requests on GitLab, through the public interface of python-gitlab."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import gitlab
from gpu_repo_runtime.update.render import ANSWERS

from fleetkit.fleet_file import HostRule
from fleetkit.hosts import BRANCHES, Checks, Request, verdict

DRAFT = "Draft: "  # GitLab knows a draft by its title


def client(rule: HostRule) -> gitlab.Gitlab:
    """Return a client that waits where GitLab asks for it."""
    return gitlab.Gitlab(
        rule.api or None, private_token=rule.token(), timeout=30, per_page=100, retry_transient_errors=True
    )


def discover(rule: HostRule) -> Iterator[tuple[str, str]]:
    """Give path and answers of each project of a group, and of the groups in it, that has answers."""
    api = client(rule)
    group = api.groups.get(rule.discover, lazy=True)
    for listed in group.projects.list(archived=False, include_subgroups=True, iterator=True):
        if listed.attributes.get("default_branch"):
            project = api.projects.get(listed.id, lazy=True)
            with suppress(gitlab.GitlabGetError):
                told = project.files.raw(file_path=ANSWERS, ref=listed.default_branch)
                yield listed.path_with_namespace, bytes(told).decode(errors="replace")


class GitLab:
    """The merge requests of one project."""

    def __init__(self, path: str, rule: HostRule) -> None:
        self.project = client(rule).projects.get(path, lazy=True)

    def _request(self, merge: Any) -> Request:
        state = {"opened": "open", "locked": "open"}.get(merge.state, merge.state)
        draft = merge.title.startswith(DRAFT)
        return Request(merge.source_branch, state, draft, merge.sha or "", merge.web_url, merge.iid)

    def requests(self, branch: str = "") -> list[Request]:
        """Return the open requests of this tool, or all of a branch; those from forks are others'."""
        wanted = {"source_branch": branch} if branch else {"state": "opened"}
        found = [
            self._request(merge)
            for merge in self.project.mergerequests.list(iterator=True, **wanted)
            if merge.source_branch.startswith(BRANCHES)
            and merge.source_project_id == merge.attributes.get("target_project_id", merge.source_project_id)
        ]
        return sorted(found, key=lambda request: -request.number)

    def conflicts(self, request: Request) -> bool:
        """Ask GitLab."""
        return bool(self.project.mergerequests.get(request.number).attributes.get("has_conflicts"))

    def open(self, branch: str, base: str, title: str, text: str, draft: bool) -> Request:
        """Open a merge request."""
        wish = {"source_branch": branch, "target_branch": base, "title": DRAFT * draft + title, "description": text}
        return self._request(self.project.mergerequests.create(wish))

    def refresh(self, request: Request, title: str, text: str, draft: bool) -> None:
        """Change title, text and whether it is a draft."""
        self.project.mergerequests.update(request.number, {"title": DRAFT * draft + title, "description": text})

    def close(self, request: Request, reason: str) -> None:
        """Close it with a comment."""
        self.project.mergerequests.get(request.number, lazy=True).notes.create({"body": reason})
        self.project.mergerequests.update(request.number, {"state_event": "close"})

    def checks(self, commit: str) -> Checks:
        """Return the sum of the jobs of the commit's pipelines; one that may fail does not count."""
        said = self.project.commits.get(commit, lazy=True).statuses.list(get_all=True)
        counted = [one.attributes for one in said if not one.attributes.get("allow_failure")]
        return verdict((one.get("name") or "job", one["status"]) for one in counted)
