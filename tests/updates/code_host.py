"""What a stand-in for GitHub or GitLab holds: requests, what pipelines say, and its repositories where it has any."""

from __future__ import annotations

import subprocess
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HEAD = "f" * 40  # the commit of every branch of a host that has no repositories
OPENED = "2026-01-02T03:04:05Z"
Trouble = tuple[int, dict[str, str], str]  # status, headers, text


class Repositories:
    """The bare repositories of a host, FOLDER/OWNER/NAME.git, in which it merges."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment

    def git(self, project: str, *arguments: str) -> str:
        """Run git in a repository and return what it prints. Raises CalledProcessError."""
        place = self.folder / f"{project}.git"
        done = subprocess.run(
            ["git", *arguments], cwd=place, env=self.environment, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def head(self, project: str, branch: str) -> str:
        """Return the commit of a branch; nothing where there is no such branch."""
        return self.git(project, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")

    def merge(self, project: str, branch: str, base: str, way: str, title: str) -> str:
        """Merge a branch as the host's button does ("merge", "squash" or "rebase"); return the commit that came."""
        ours, theirs = self.head(project, base), self.head(project, branch)
        tree = self.git(project, "merge-tree", "--write-tree", ours, theirs)
        words = {"merge": f"Merge {branch}\n\n{title}", "squash": f"{title} (#1)"}
        text = words.get(way) or self.git(project, "log", "-1", "--format=%B", theirs)
        parents = [part for parent in ([ours, theirs] if way == "merge" else [ours]) for part in ("-p", parent)]
        made = self.git(project, "commit-tree", tree, *parents, "-m", text)
        self.git(project, "update-ref", f"refs/heads/{base}", made, ours)
        return made


@dataclass
class Server:
    """What the stand-in holds: requests by project, and each call that came in."""

    address: str = ""
    requests: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    token: str = "secret"
    answers: dict[str, str | None] = field(default_factory=dict)  # what the host lists: path -> .copier-answers.yml
    comments: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # by project and number of the request
    archived: set[str] = field(default_factory=set)
    checks: dict[str, list[str]] = field(default_factory=dict)  # what the pipeline of a project, or a commit, says
    troubles: list[Trouble] = field(default_factory=list)  # given in place of the next answers
    after: list[str] = field(default_factory=list)  # methods whose next trouble comes after the work is done
    puts: list[Trouble] = field(default_factory=list)  # given in place of the next answers to PUT
    tokens: list[str] = field(default_factory=list)  # each that came in
    moods: dict[str, list[Trouble | None]] = field(default_factory=dict)  # the same for one project; None answers
    page: int = 100
    people: tuple[str, ...] = ()
    no_drafts: set[str] = field(default_factory=set)  # repositories that are offered none
    statuses: dict[str, list[str]] = field(default_factory=dict)  # of a project's commits, besides `checks`
    pipelines: dict[str, str] = field(default_factory=dict)  # of merged results, which have a commit of their own
    odd_files: dict[str, Trouble] = field(default_factory=dict)  # what a repository answers when its answers are asked
    settings: dict[str, dict[str, bool]] = field(default_factory=dict)  # how a repository may be merged
    moved: dict[str, str] = field(default_factory=dict)  # the path where a project was before -> its path now
    protected: set[str] = field(default_factory=set)  # projects where a person has to approve what is merged
    read_only: set[str] = field(default_factory=set)  # projects of which the token may read alone
    repositories: Repositories | None = None
    faults: list[str] = field(default_factory=list)  # what the host's published description does not allow
    numbers: list[str] = field(default_factory=list)  # the projects by their number, less one
    busy: threading.Lock = field(default_factory=threading.Lock)

    def number(self, project: str) -> int:
        """Return the number of a project."""
        with self.busy:
            if project not in self.numbers:
                self.numbers.append(project)
            return self.numbers.index(project) + 1

    def head(self, project: str, branch: str) -> str:
        """Return the commit of a branch."""
        return self.repositories.head(project, branch) if self.repositories else HEAD

    def default_branch(self, project: str) -> str:
        """Return the name of the branch that requests go into."""
        return self.repositories.git(project, "symbolic-ref", "--short", "HEAD") if self.repositories else "main"

    def said(self, project: str, commit: str) -> list[str]:
        """Return what the pipeline says of a commit."""
        return self.checks.get(commit, self.checks.get(project, []))

    def merge(self, project: str, request: dict[str, Any], way: str) -> None:
        """Merge the branch of a request in the repository, where there is one."""
        if self.repositories:
            base = request.get("target_branch") or request["base"]["ref"]
            branch = request.get("source_branch") or request["head"]["ref"]
            self.repositories.merge(project, branch, base, way, request["title"])

    def comment(self, request: str, method: str, body: Any) -> tuple[int, Any]:
        """Answer with the comments of a request, or take one more."""
        known = self.comments.setdefault(request, [])
        if method == "GET":
            return 200, known
        known.append({"id": len(known) + 1, "body": body["body"], "created_at": now()})
        return 201, known[-1]


def now() -> str:
    """Return the time as both hosts write it."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
