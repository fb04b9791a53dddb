"""Run and check declarative Jenkinsfiles from Python tests; README.md has the fields of an event."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.jenkins import jvm

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


@dataclass(frozen=True)
class Stage:
    """One stage of a build. In a matrix each cell has its own stages; `path` names the stages around one and itself.

    `result` is SUCCESS, UNSTABLE, FAILURE, ABORTED or NOT_BUILT; `skipped` says why it did not run, else None.
    """

    name: str
    path: tuple[str, ...]
    axes: Mapping[str, str]
    label: str | None
    result: str
    skipped: str | None

    @property
    def ran(self) -> bool:
        """Whether it was entered, which its agent or options may still have failed."""
        return self.skipped is None


@dataclass(frozen=True)
class Trace:
    """One build. `log` is its whole console text, masked; `workdir` holds workspaces, stash/ and archive/."""

    result: str
    log: str
    stages: tuple[Stage, ...]
    events: tuple[Mapping[str, Any], ...]
    workdir: Path

    def stage(self, name: str) -> Stage:
        """Return the one stage of that name. Raises ValueError."""
        [found] = [stage for stage in self.stages if stage.name == name]
        return found


def check(*jenkinsfiles: Path) -> list[Problem]:
    """Check the structure and the syntax of Jenkinsfiles; nothing in them is run. Return all problems in order."""
    given = {str(path.absolute()): path for path in jenkinsfiles}
    return [Problem(**{**found, "file": given[found["file"]]}) for found in _ask({"check": list(given)})["problems"]]


def run_pipeline(
    jenkinsfile: Path,
    source: Path,
    *,
    workdir: Path,
    labels: Mapping[str, Path] | None = None,
    credentials: Mapping[str, Secret] | None = None,
    approve: bool = True,
    timer: bool = False,
    env: Mapping[str, str] | None = None,
    timeouts: Mapping[str, float] | None = None,
    only: Iterable[str] | None = None,
    after: Trace | None = None,
) -> Trace:
    """Run a Jenkinsfile on clones of `source` as build 1, and return what happened, whatever the build's result.

    source: a git repository with a commit; each checkout is a clone of HEAD.
    labels: the agents, one label each; the value is a folder put first on PATH there.
    approve: the answer to every `input`. timer: started by cron, not by a push.
    env: variables of the whole build, such as TAG_NAME; BRANCH_NAME is main without one.
    timeouts: seconds that replace the `timeout`s of a stage, by its name.
    only: the stages to run, by name; the others are left out. after: a build whose stashes are there from the start.

    Raises ValueError for a file that the static check rejects, and for wrong arguments.
    """
    request = {
        "jenkinsfile": str(jenkinsfile.absolute()),
        "source": str(source.absolute()),
        "workdir": str(workdir.absolute()),
        "labels": {name: str(first.absolute()) for name, first in (labels or {}).items()},
        "credentials": {name: _credential(secret) for name, secret in (credentials or {}).items()},
        "params": {},
        "approve": approve,
        "timer": timer,
        "env": {"BRANCH_NAME": "main", **(env or {})},
        "timeouts": dict(timeouts or {}),
        "build_number": "1",
        "only": None if only is None else list(only),
        "stashes": str(after.workdir / "stash") if after else None,
        "outside": dict(os.environ),
    }
    answer = _ask({"run": request})
    if "problems" in answer:
        raise ValueError("\n".join(str(Problem(**found)) for found in answer["problems"]))
    told = answer["trace"]
    fields = Stage.__dataclass_fields__
    stages = [{key: value for key, value in stage.items() if key in fields} for stage in told["stages"]]
    stages = [Stage(**stage | {"path": tuple(stage["path"])}) for stage in stages]
    return Trace(told["result"], told["log"], tuple(stages), tuple(told["events"]), workdir)


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    answer = jvm.call(request)
    if "wrong" in answer:
        raise ValueError(answer["wrong"])
    if "broken" in answer:
        raise RuntimeError(f"the runner itself failed: {answer['broken']}")
    return answer


def _credential(secret: Secret) -> dict[str, str]:
    if isinstance(secret, tuple):
        return {"kind": "usernamePassword", "user": secret[0], "secret": secret[1]}
    return {"kind": "file" if isinstance(secret, Path) else "string", "secret": str(secret)}
