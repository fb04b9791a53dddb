"""Pull requests of GitHub, by PyGithub."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

from fleetkit import clients
from fleetkit.children import FleetError, HostRule
from fleetkit.requests import (
    REFUSED,
    REMINDER,
    TAKEN_BACK,
    Look,
    Opened,
    branch_in,
    closed_by_a_person,
    is_older,
    signed,
    verdict,
)

MAY_NOT_MERGE = (400, 403, 405, 409, 422)  # 400: GraphQL says why in its words


class GitHub:
    """One repository of GitHub."""

    def __init__(self, path: str, rule: HostRule) -> None:
        self.github = clients.github(rule)
        self.path = path

    def _repository(self) -> Any:
        self.repository = self.github.get_repo(self.path)
        if self.repository.archived:
            raise FleetError("its repository is archived: take it from the fleet, or pause it")
        return self.repository

    def _all(self, branch: str) -> list[Any]:
        self._repository()
        owner = self.repository.full_name.split("/")[0]  # it may have moved since its address was written down
        return list(self.repository.get_pulls(state="all", head=f"{owner}:{branch}"))

    def _own(self, pull: Any) -> bool:
        """Tell whether the branch of a pull request is in this repository: anybody's fork can have one of that name."""
        return bool(pull.head.label == f"{self.repository.full_name.split('/')[0]}:{pull.head.ref}")

    def opened(self) -> list[Opened]:
        """Return the open pull requests of this tool."""
        pulls = [(branch_in(pull.body), pull) for pull in self._repository().get_pulls(state="open")]
        return [
            Opened(
                branch, pull.title, str(pull.html_url), pull.created_at, bool(pull.draft),
                tuple(asked.login for asked in pull.requested_reviewers or ()),
            )
            for branch, pull in pulls if branch and branch == pull.head.ref and self._own(pull)
        ]  # fmt: skip

    def reminded(self, branch: str) -> datetime | None:
        """Return when the open pull request got its last reminder."""
        pull = self._open(branch)
        told = pull.get_issue_comments() if pull else []
        return max((comment.created_at for comment in told if REMINDER in (comment.body or "")), default=None)

    def remind(self, branch: str, text: str) -> None:
        """Write a comment under the open pull request; one that was closed meanwhile gets none."""
        pull = self._open(branch)
        if pull is not None:
            pull.create_issue_comment(text)

    def _open(self, branch: str) -> Any:
        return next((pull for pull in self._all(branch) if pull.state == "open"), None)

    def _create(self, branch: str, base: str, title: str, text: str, draft: bool) -> Any:
        from github import GithubException

        try:
            return self.repository.create_pull(base=base, head=branch, title=title, body=text, draft=draft)
        except GithubException as error:
            if error.status == 422 and draft and "draft" in str(error).lower():  # this repository is offered none
                return self._create(branch, base, f"Do not merge yet: {title}", text, False)
            # 422: an answer got lost, and the second try finds what the first one made
            found = self._open(branch) if error.status == 422 else None
            if found is None:
                raise
            return found

    def _ask(self, pull: Any, reviewer: str) -> None:
        from github import GithubException

        name = reviewer.rpartition("/")[2]
        for who in ({"reviewers": [name]}, {"team_reviewers": [name]}):
            with suppress(GithubException):  # no such person or team here: the request stands without a reviewer
                pull.create_review_request(**who)
                return

    def request(self, branch: str, base: str, title: str, text: str, draft: bool, reviewer: str = "") -> str:
        """Open a pull request, or refresh the text of the open one; close those of other versions."""
        pull, text = self._open(branch), signed(text, branch)
        if pull is None:
            pull = self._create(branch, base, title, text, draft)
            if reviewer:
                self._ask(pull, reviewer)
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

    def open_branches(self) -> list[str]:
        """Return the branches of the open pull requests that this tool made."""
        pulls = self._repository().get_pulls(state="open")
        return [branch for pull in pulls if (branch := branch_in(pull.body)) and self._own(pull)]

    def _checks(self, commit: str) -> list[str]:
        at = self.repository.get_commit(commit)
        said = [status.state for status in at.get_combined_status().statuses]
        return said + [run.conclusion or run.status for run in at.get_check_runs()]

    def look(self, branch: str) -> Look:
        """Return how the pull request fares, by commit statuses and check runs."""
        pulls = self._all(branch)
        for pull in pulls:
            if pull.merged_at:
                return Look("merged", pull.merged_at, True)
        for pull in pulls:
            if pull.state == "open":
                state, started = verdict(self._checks(pull.head.sha))
                return Look(state, pull.created_at, started)
        return Look("closed" if any(closed_by_a_person(pull.body) for pull in pulls) else "")

    def _way(self) -> str:
        """Return how this repository lets requests be merged; it tells that only to those who may merge."""
        ways = {"merge": "allow_merge_commit", "squash": "allow_squash_merge", "rebase": "allow_rebase_merge"}
        return next((way for way, name in ways.items() if getattr(self.repository, name) is not False), "merge")

    def merge_when_green(self, branch: str, commit: str) -> str:
        """Merge what is green, or let GitHub do so; nothing before a check has started, nor another commit."""
        from github import GithubException

        pull = self._open(branch)
        if pull is None or pull.head.sha != commit:
            return ""
        state, started = verdict(self._checks(commit))
        if not started or state == "red":
            return ""
        try:
            return self._merge(pull, state, commit)
        except GithubException as error:  # a protected branch waits for a person: its request stands all the same
            if error.status not in MAY_NOT_MERGE:
                raise
            return f"{REFUSED}{error.message or error.status}"

    def _merge(self, pull: Any, state: str, commit: str) -> str:
        if state == "green":
            pull.merge(sha=commit, merge_method=self._way())
            return "merged"
        if self.repository.allow_auto_merge is False:  # then it is merged when apply comes by again
            return ""
        pull.enable_automerge(expected_head_oid=commit, merge_method=self._way().upper())
        return "merges when green"
