"""Requests on GitHub, through the public interface of PyGithub."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from github import Auth, Github, GithubException, GithubRetry
from github.PullRequest import PullRequest
from github.Repository import Repository
from gpu_repo_runtime.update.render import ANSWERS

from fleetkit.fleet_file import HostRule
from fleetkit.hosts import BRANCHES, Checks, Request, verdict

MOST = 30  # requests of one branch that are looked at


def client(rule: HostRule) -> Github:
    """Return a client that waits where GitHub asks for it."""
    retry = GithubRetry(total=4, backoff_factor=0.5)
    place = rule.api or "https://api.github.com"
    return Github(auth=Auth.Token(rule.token()), base_url=place, retry=retry, timeout=30, per_page=100)


def discover(rule: HostRule) -> Iterator[tuple[str, str]]:
    """Give path and answers of each repository of an organisation or person that has answers."""
    github = client(rule)
    try:
        listed = github.get_organization(rule.discover).get_repos()
    except GithubException:
        listed = github.get_user(rule.discover).get_repos()
    for repository in listed:
        if not repository.archived and not repository.fork:
            with suppress(GithubException):  # no such file, or an empty repository
                found = repository.get_contents(ANSWERS)
                if not isinstance(found, list):
                    yield repository.full_name, found.decoded_content.decode(errors="replace")


class GitHub:
    """The pull requests of one repository."""

    def __init__(self, path: str, rule: HostRule) -> None:
        self.owner = path.partition("/")[0]
        self.repository: Repository = client(rule).get_repo(path, lazy=True)

    def _request(self, pull: PullRequest) -> Request:
        state = "merged" if pull.merged_at else pull.state
        return Request(pull.head.ref, state, bool(pull.draft), pull.head.sha, pull.html_url, pull.number)

    def requests(self, branch: str = "") -> list[Request]:
        """Return the open requests of this tool, or all of a branch; those from forks are others'."""
        if branch:
            pulls = list(islice(self.repository.get_pulls(state="all", head=f"{self.owner}:{branch}"), MOST))
        else:
            pulls = [pull for pull in self.repository.get_pulls(state="open") if pull.head.ref.startswith(BRANCHES)]
        own = [pull for pull in pulls if pull.head.label == f"{self.owner}:{pull.head.ref}"]
        return sorted((self._request(pull) for pull in own), key=lambda request: -request.number)

    def conflicts(self, request: Request) -> bool:
        """Ask GitHub, which answers nothing until it has looked."""
        return self.repository.get_pull(request.number).mergeable is False

    def open(self, branch: str, base: str, title: str, text: str, draft: bool) -> Request:
        """Open a pull request; where the repository has no drafts, its title says it."""
        try:
            return self._request(
                self.repository.create_pull(base=base, head=branch, title=title, body=text, draft=draft)
            )
        except GithubException as error:
            if error.status == 422 and draft and "draft" in str(error).lower():
                return self.open(branch, base, f"Draft: {title}", text, False)
            raise

    def refresh(self, request: Request, title: str, text: str, draft: bool) -> None:
        """Change title, text and whether it is a draft."""
        pull = self.repository.get_pull(request.number)
        pull.edit(title=title, body=text)
        with suppress(GithubException):  # no drafts here, or a token that may not
            if draft and not pull.draft:
                pull.convert_to_draft()
            elif pull.draft and not draft:
                pull.mark_ready_for_review()

    def close(self, request: Request, reason: str) -> None:
        """Close it with a comment."""
        pull = self.repository.get_pull(request.number)
        pull.create_issue_comment(reason)
        pull.edit(state="closed")

    def checks(self, commit: str) -> Checks:
        """Return the sum of commit statuses and check runs."""
        at = self.repository.get_commit(commit)
        said = [(one.context or "status", one.state) for one in at.get_combined_status().statuses]
        return verdict([*said, *((run.name or "check", run.conclusion or run.status) for run in at.get_check_runs())])
