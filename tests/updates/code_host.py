"""What a stand-in for GitHub or GitLab holds: requests, what pipelines say, and its bare repositories."""

import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OPENED = "2026-01-02T03:04:05Z"


class Repositories:
    """The bare repositories of a host: FOLDER/OWNER/NAME.git."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment

    def head(self, project: str, branch: str) -> str:
        """Return the commit of a branch; nothing where there is no such branch."""
        command = ["git", "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}"]
        place = self.folder / f"{project}.git"
        return subprocess.run(
            command, cwd=place, env=self.environment, check=True, capture_output=True, text=True
        ).stdout.strip()


@dataclass
class Server:
    """What the stand-in holds: requests by project, and what came in."""

    repositories: Repositories = field(init=False)
    address: str = ""
    requests: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    token: str = "secret"
    tokens: list[str] = field(default_factory=list)  # each that came in
    answers: dict[str, str | None] = field(default_factory=dict)  # what the host lists: path -> .copier-answers.yml
    comments: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # by project and number of the request
    checks: dict[str, list[str]] = field(default_factory=dict)  # what the pipeline of a project, or a commit, says
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
        return self.repositories.head(project, branch)

    def said(self, project: str, commit: str) -> list[str]:
        """Return what the pipeline says of a commit."""
        return self.checks.get(commit, self.checks.get(project, []))

    def comment(self, request: str, body: Any) -> tuple[int, Any]:
        """Take a comment on a request."""
        known = self.comments.setdefault(request, [])
        known.append({"id": len(known) + 1, "body": body["body"], "created_at": OPENED})
        return 201, known[-1]
