"""Pull requests of GitHub, by PyGithub."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
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

MAY_NOT_MERGE = (400, 403, 405, 409, 422)  # 400: GraphQL says why in its words
NOT_YET = "Do not merge yet: "


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
        """Return the pull requests of a branch into the default branch, and this tool's own into another one."""
        self._repository()
        owner = self.repository.full_name.split("/")[0]  # it may have moved since its address was written down
        found = self.repository.get_pulls(state="all", head=f"{owner}:{branch}")
        return [p for p in found if p.head.ref == branch and self._own(p) and (self._brings(p) or self._signed(p))]

    def _own(self, pull: Any) -> bool:
        """Tell whether the branch of a pull request is in this repository: any fork can have one of that name."""
        return bool(pull.head.repo and pull.head.repo.id == self.repository.id)

    def _brings(self, pull: Any) -> bool:
        """Tell whether a pull request goes into the default branch, and not into one that is kept beside it."""
        return bool(pull.base.ref == self.repository.default_branch)

    def _signed(self, pull: Any) -> bool:
        """Tell whether this tool opened a pull request."""
        return is_ours(pull.body, pull.head.ref) and self._own(pull)

    def _every_open(self) -> list[Any]:
        return [pull for pull in self._repository().get_pulls(state="open") if self._signed(pull)]

    def opened(self) -> list[Opened]:
        """Return the open pull requests of this tool."""
        return [
            Opened(
                pull.head.ref, pull.title, str(pull.html_url), pull.created_at, bool(pull.draft),
                tuple(asked.login for asked in pull.requested_reviewers or ()),
            )
            for pull in self._every_open()
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
        found = [pull for pull in self._all(branch) if pull.state == "open"]
        return next((pull for pull in found if self._brings(pull)), found[0] if found else None)

    def _create(self, branch: str, base: str, title: str, text: str, draft: bool) -> Any:
        from github import GithubException

        try:
            return self.repository.create_pull(base=base, head=branch, title=title, body=text, draft=draft)
        except GithubException as error:
            if error.status == 422 and draft and "draft" in str(error).lower():  # this repository is offered none
                return self._create(branch, base, f"{NOT_YET}{title}", text, False)
            # 422: an answer got lost, and the second try finds what the first one made
            found = self._open(branch) if error.status == 422 else None
            if found is None:
                raise
            return found

    def _ask(self, pull: Any, reviewer: str) -> None:
        from github import GithubException

        name, team = reviewer.rpartition("/")[2], "/" in reviewer  # a person may be called as a team is
        for who in ({"team_reviewers": [name]},) if team else ({"reviewers": [name]}, {"team_reviewers": [name]}):
            with suppress(GithubException):  # no such person or team here: the request stands without a reviewer
                pull.create_review_request(**who)
                return

    def request(self, branch: str, base: str, title: str, text: str, draft: bool, reviewer: str = "") -> str:
        """Open a pull request, or refresh the text of the open one; close those of other versions."""
        pull, text = self._open(branch), signed(text, branch, draft)
        if pull is None:
            pull = self._create(branch, base, title, text, draft)
            if reviewer:
                self._ask(pull, reviewer)
        elif self._signed(pull):
            self._refresh(pull, title, text, draft)
        for other in self._every_open():
            if is_older(other.body, branch):
                other.edit(state="closed", body=f"{other.body}\n{TAKEN_BACK}\nSuperseded by {pull.html_url}\n")
        return str(pull.html_url)

    def _refresh(self, pull: Any, title: str, text: str, draft: bool) -> None:
        """Give an open pull request its new text; a draft that a person made of it stays one."""
        from github import GithubException

        if draft and not pull.draft:
            with suppress(GithubException):  # none was on its way
                pull.disable_automerge()
            try:
                pull.convert_to_draft()
            except GithubException:  # this repository is offered none
                title = f"{NOT_YET}{title}"
        elif not draft and pull.draft and DRAFT in (pull.body or ""):
            with suppress(GithubException):  # a token that may not: the request stays a draft, and its owner sees it
                pull.mark_ready_for_review()
        pull.edit(title=title, body=text)

    def closed(self, branch: str) -> str:
        """Return the pull request that a person closed."""
        pulls = self._all(branch)
        found = [pull for pull in pulls if not pull.merged_at and closed_by_a_person(pull.body)]
        return str(found[0].html_url) if found and all(pull.state == "closed" for pull in pulls) else ""

    def close(self, branch: str) -> bool:
        """Close the open pull request."""
        pull = self._open(branch)
        if pull is not None and not self._signed(pull):
            raise not_ours(str(pull.html_url), branch)
        if pull is not None:
            pull.edit(state="closed", body=f"{pull.body or ''}\n{TAKEN_BACK}\n")
        return pull is not None

    def _checks(self, commit: str) -> list[str]:
        at = self.repository.get_commit(commit)
        told = at.get_combined_status()  # it lists its first page; its own word is about all of them
        said = [told.state] if told.total_count else []
        return said + [run.conclusion or run.status for run in at.get_check_runs()]

    def look(self, branch: str) -> Look:
        """Return how the pull request fares, by commit statuses and check runs."""
        pulls = self._all(branch)
        for pull in pulls:
            if pull.merged_at and self._brings(pull):
                return Look("merged", pull.merged_at, True)
        for pull in pulls:
            if pull.state == "open":
                state, started = verdict(self._checks(pull.head.sha))
                return Look(state, pull.created_at, started)
        refused = any(closed_by_a_person(pull.body) for pull in pulls if not pull.merged_at)
        return Look("closed" if refused else "")

    def _way(self) -> str:
        """Return how this repository lets requests be merged; it tells that only to those who may merge."""
        ways = {"merge": "allow_merge_commit", "squash": "allow_squash_merge", "rebase": "allow_rebase_merge"}
        return next((way for way, name in ways.items() if getattr(self.repository, name) is not False), "merge")

    def merge_when_green(self, branch: str, commit: str) -> str:
        """Merge what is green, or let GitHub do so; nothing before a check has started, nor another commit."""
        from github import GithubException

        pull = self._open(branch)
        if pull is None or pull.head.sha != commit or not self._brings(pull) or not self._signed(pull):
            return ""
        state, started = verdict(self._checks(commit))
        if not started or state == "red" or pull.draft:  # a draft waits for whoever made it one
            return ""
        try:
            return self._merge(pull, state, commit)
        except GithubException as error:  # a protected branch waits for a person: its request stands all the same
            if error.status not in MAY_NOT_MERGE:
                raise
            if any(one.number == pull.number and one.merged_at for one in self._all(branch)):
                return "merged"  # the answer to the first try got lost
            return f"{REFUSED}{error.message or error.status}"

    def _merge(self, pull: Any, state: str, commit: str) -> str:
        from github import GithubException

        if state == "green":
            try:
                pull.merge(sha=commit, merge_method=self._way())
                return "merged"
            except GithubException as error:
                if "merge queue" not in str(error):
                    raise  # a queue takes what GitHub is told to merge by itself
        if self.repository.allow_auto_merge is False:  # then it is merged when apply comes by again
            return ""
        pull.enable_automerge(expected_head_oid=commit, merge_method=self._way().upper())
        return "merges when green"
