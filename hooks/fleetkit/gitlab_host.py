"""Merge requests of GitLab, by python-gitlab; a draft is a request whose title says so."""

from __future__ import annotations

import re
from datetime import datetime
from functools import cached_property
from typing import Any

from fleetkit import clients
from fleetkit.children import FleetError, HostRule
from fleetkit.requests import (
    DRAFT,
    REFUSED,
    REMINDER,
    TAKEN_BACK,
    Look,
    Opened,
    closed_by_a_person,
    is_older,
    is_ours,
    not_ours,
    signed,
    verdict,
)

MARKED = re.compile(r"\s*(?:draft:|\[draft\]|\(draft\))\s*", re.IGNORECASE)  # a title that makes a draft
MAY_NOT_MERGE = (401, 403, 405, 406, 409, 422)


def moment(text: str | None) -> datetime | None:
    """Return the time that GitLab writes."""
    return datetime.fromisoformat(text) if text else None


class GitLab:
    """One project of GitLab."""

    def __init__(self, path: str, rule: HostRule) -> None:
        self.gitlab = clients.gitlab(rule)
        self.path = path

    @cached_property
    def project(self) -> Any:
        """Return the project, by its number from here on: GitLab takes nothing but GET where a project was before."""
        found = self.gitlab.projects.get(self.path)
        if found.attributes.get("archived"):
            raise FleetError("its repository is archived: take it from the fleet, or pause it")
        return found

    def _all(self, branch: str) -> list[Any]:
        """Return the merge requests of a branch into the default branch, and this tool's own into another one."""
        found = self.project.mergerequests.list(source_branch=branch, get_all=True)
        return [one for one in found if self._own(one) and (self._brings(one) or self._signed(one))]

    def _own(self, one: Any) -> bool:
        """Tell whether the branch of a merge request is in this project: anybody's fork can have one of that name."""
        return bool(one.source_project_id == self.project.id)

    def _brings(self, one: Any) -> bool:
        """Tell whether a merge request goes into the default branch, and not into one that is kept beside it."""
        return bool(one.target_branch == self.project.default_branch)

    def _signed(self, one: Any) -> bool:
        """Tell whether this tool opened a merge request."""
        return is_ours(one.description, one.source_branch) and self._own(one)

    def _every_open(self) -> list[Any]:
        return [one for one in self.project.mergerequests.list(state="opened", get_all=True) if self._signed(one)]

    def opened(self) -> list[Opened]:
        """Return the open merge requests of this tool."""
        return [
            Opened(
                one.source_branch, one.title, str(one.web_url), moment(getattr(one, "created_at", None)),
                bool(MARKED.match(one.title)),
                tuple(asked["username"] for asked in getattr(one, "reviewers", None) or ()),
            )
            for one in self._every_open()
        ]  # fmt: skip

    def reminded(self, branch: str) -> datetime | None:
        """Return when the open merge request got its last reminder."""
        found = self._open(branch)
        told = found.notes.list(get_all=True) if found else []
        return max((at for note in told if REMINDER in note.body and (at := moment(note.created_at))), default=None)

    def remind(self, branch: str, text: str) -> None:
        """Write a note under the open merge request; one that was closed meanwhile gets none."""
        found = self._open(branch)
        if found is not None:
            found.notes.create({"body": text})

    def _open(self, branch: str) -> Any:
        found = [one for one in self._all(branch) if one.state == "opened"]
        return next((one for one in found if self._brings(one)), found[0] if found else None)

    def _close(self, found: Any, why: str) -> None:
        found.state_event, found.description = "close", f"{found.description or ''}\n{TAKEN_BACK}\n{why}"
        found.save()

    def _create(self, branch: str, data: dict[str, Any]) -> Any:
        import gitlab

        try:
            return self.project.mergerequests.create(data)
        except gitlab.GitlabError as error:  # 409: an answer got lost, and the second try finds what the first one made
            found = self._open(branch) if error.response_code == 409 else None
            if found is None:
                raise
            return found

    def request(self, branch: str, base: str, title: str, text: str, draft: bool, reviewer: str = "") -> str:
        """Open a merge request, or refresh the text of the open one; close those of other versions."""
        text, found = signed(text, branch, draft), self._open(branch)
        by_a_person = found is not None and MARKED.match(found.title) and DRAFT not in (found.description or "")
        title = f"Draft: {title}" if draft or by_a_person else title
        if found is None:
            people = self.gitlab.users.list(username=reviewer, get_all=False) if reviewer else []
            asked = [person.id for person in people]
            data = {"source_branch": branch, "target_branch": base, "title": title, "description": text}
            found = self._create(branch, data | ({"reviewer_ids": asked} if asked else {}))
        elif self._signed(found):
            found.title, found.description = title, text
            found.save()
        for other in self._every_open():
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
        if found is not None and not self._signed(found):
            raise not_ours(str(found.web_url), branch)
        if found is not None:
            self._close(found, "")
        return found is not None

    def _checks(self, request: Any) -> list[str]:
        """Return what the jobs of a commit say, and the pipeline: one of a merged result has another commit."""
        told = self.project.commits.get(request.sha, lazy=True).statuses.list(get_all=True)
        pipeline = getattr(self.project.mergerequests.get(request.iid), "head_pipeline", None) or {}
        said = [one.status for one in told if not getattr(one, "allow_failure", False)]
        return said + ([pipeline["status"]] if pipeline else [])

    def look(self, branch: str) -> Look:
        """Return how the merge request fares, by the statuses of its commit: those of jobs too."""
        every = self._all(branch)
        for one in every:
            if one.state == "merged" and self._brings(one):
                return Look("merged", moment(getattr(one, "merged_at", None)), True)
        for one in every:
            if one.state == "opened":
                state, started = verdict(self._checks(one))
                return Look(state, moment(getattr(one, "created_at", None)), started)
        refused = any(closed_by_a_person(one.description) for one in every if one.state == "closed")
        return Look("closed" if refused else "")

    def merge_when_green(self, branch: str, commit: str) -> str:
        """Merge what is green, or let GitLab do so; nothing before a job has started or where the branch is another."""
        import gitlab

        found = self._open(branch)
        if found is None or found.sha != commit or not self._brings(found) or not self._signed(found):
            return ""
        state, started = verdict(self._checks(found))
        if not started or state == "red" or MARKED.match(found.title):  # a draft waits for whoever made it one
            return ""
        wait = {"auto_merge": True, "merge_when_pipeline_succeeds": True}  # the second until GitLab 17.11
        place = f"{self.project.mergerequests.path}/{found.iid}/merge"
        try:
            self.gitlab.http_put(place, post_data={"sha": commit} | ({} if state == "green" else wait))
        except gitlab.GitlabError as error:  # a protected branch waits for a person: its request stands all the same
            if error.response_code not in MAY_NOT_MERGE:
                raise
            if any(one.iid == found.iid and one.state == "merged" for one in self._all(branch)):
                return "merged"  # the answer to the first try got lost
            return f"{REFUSED}{error.error_message}"
        return "merged" if state == "green" else "merges when green"
