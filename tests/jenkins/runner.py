"""Run and check declarative Jenkinsfiles from Python tests; README.md beside this file has the fields of a trace."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.jenkins import jvm
from tests.jenkins.trace import Command, Event, Report, Stage, Trace, read_trace

__all__ = [
    "Command",
    "Event",
    "PipelineRefused",
    "Problem",
    "Report",
    "Secret",
    "Stage",
    "Trace",
    "check",
    "run_pipeline",
]

Secret = str | tuple[str, str] | Path
"""A fake credential: a secret text, a (user, password) pair, or the path of a secret file."""


@dataclass(frozen=True)
class Problem:
    """One fault that the static check found. `kind`: "structure", "syntax" or "not run here"; `right` may be empty."""

    file: Path
    line: int
    what: str
    right: str
    kind: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}" + (f"; {self.right}" if self.right else "")


class PipelineRefused(Exception):
    """The Jenkinsfile was refused before anything ran; `problems` says where and why."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = list(problems)


def check(*jenkinsfiles: Path) -> list[Problem]:
    """Check the structure and the syntax of Jenkinsfiles; nothing in them is run. Return all problems in order."""
    given = {str(path.absolute()): path for path in jenkinsfiles}
    return [Problem(**{**found, "file": given[found["file"]]}) for found in _ask({"check": list(given)})["problems"]]


def run_pipeline(
    jenkinsfile: Path,
    source: Path,
    *,
    workdir: Path | None = None,
    branch: str = "main",
    tag: str | None = None,
    change: str | None = None,
    labels: Mapping[str, Path | None] | Iterable[str] = ("linux",),
    credentials: Mapping[str, Secret] | None = None,
    params: Mapping[str, str] | None = None,
    approve: bool = True,
    timer: bool = False,
    env: Mapping[str, str] | None = None,
    timeouts: Mapping[str, float] | None = None,
    build_number: int = 1,
    only: Iterable[str] | None = None,
    after: Trace | None = None,
) -> Trace:
    """Run a Jenkinsfile on clones of `source` and return what happened, whatever the build's result.

    source: a git repository with a commit; each checkout is a clone of HEAD.
    branch, tag, change: the kind of build; a tag or a change (the number of a pull request) replaces the branch.
    labels: the agents, one label each; the value is a folder put first on PATH there.
    approve: the answer to every `input`. timer: started by cron, not by a push. env: variables of the whole build.
    timeouts: seconds that replace the `timeout`s of a stage, by its name.
    only: the stages to run, by name; the others are left out. after: a build whose stashes are there from the start.

    Raises PipelineRefused when the static check refuses the file, ValueError for arguments the runner refuses.
    """
    folder = (workdir or Path(tempfile.mkdtemp(prefix="jenkins-"))).absolute()
    given = labels if isinstance(labels, Mapping) else dict.fromkeys(labels)
    request = {
        "jenkinsfile": str(jenkinsfile.absolute()),
        "source": str(source.absolute()),
        "workdir": str(folder),
        "labels": {name: str(first.absolute()) if first else None for name, first in given.items()},
        "credentials": {name: _credential(secret) for name, secret in (credentials or {}).items()},
        "params": dict(params or {}),
        "approve": approve,
        "timer": timer,
        "env": _kind(branch, tag, change) | dict(env or {}),
        "timeouts": dict(timeouts or {}),
        "build_number": str(build_number),
        "only": None if only is None else list(only),
        "stashes": str(after.workdir / "stash") if after else None,
        "outside": dict(os.environ),
    }
    answer = _ask({"run": request})
    if "problems" in answer:
        raise PipelineRefused([Problem(**{**found, "file": jenkinsfile}) for found in answer["problems"]])
    return read_trace(answer["trace"], folder)


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    answer = jvm.call(request)
    if "wrong" in answer:
        raise ValueError(answer["wrong"])
    if "broken" in answer:
        raise RuntimeError(f"the runner itself failed: {answer['broken']}")
    return answer


def _kind(branch: str, tag: str | None, change: str | None) -> dict[str, str]:
    """Return the variables that Jenkins sets for a build of a branch, a tag or a pull request."""
    if tag is not None:
        return {"BRANCH_NAME": tag, "TAG_NAME": tag}
    if change is not None:
        return {"BRANCH_NAME": f"PR-{change}", "CHANGE_ID": change, "CHANGE_TARGET": "main"}
    return {"BRANCH_NAME": branch}


def _credential(secret: Secret) -> dict[str, str]:
    if isinstance(secret, tuple):
        return {"kind": "usernamePassword", "user": secret[0], "secret": secret[1]}
    return {"kind": "file" if isinstance(secret, Path) else "string", "secret": str(secret)}
