"""Run and check declarative Jenkinsfiles from Python tests; the schema of a trace is in README.md beside this file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
    "read_trace",
    "run_pipeline",
]

Secret = str | tuple[str, str] | Path
"""A fake credential: a secret text, a (user, password) pair, or the path of a secret file."""

EXIT_CODES = {0: "SUCCESS", 1: "FAILURE", 10: "UNSTABLE", 11: "ABORTED"}


@dataclass(frozen=True)
class Problem:
    """One fault that the static check found. `kind` is "structure" or "syntax"; `right` may be empty."""

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
    """Check the structure and the syntax of Jenkinsfiles; nothing in them is run. Return all problems in order.

    Raises ValueError for a file that is not there.
    """
    given = {str(path.absolute()): path for path in jenkinsfiles}
    done = jvm.call(["check", "--json", *given])
    if done.exit_code not in (0, 2, 3):
        raise ValueError(f"the check ended with {done.exit_code}: {done.stderr.strip()}")
    return [replace(problem, file=given[str(problem.file)]) for problem in _problems(done.stdout)]


def run_pipeline(
    jenkinsfile: Path,
    source: Path,
    *,
    workdir: Path | None = None,
    branch: str | None = "main",
    tag: str | None = None,
    change: str | None = None,
    change_target: str = "main",
    labels: Mapping[str, Path | None] | Iterable[str] = ("linux",),
    credentials: Mapping[str, Secret] | None = None,
    params: Mapping[str, object] | None = None,
    docker: Path | None = None,
    approve: bool | Mapping[str, bool] = True,
    input_values: Mapping[str, object] | None = None,
    timer: bool = False,
    env: Mapping[str, str] | None = None,
    timeouts: Mapping[str, float] | None = None,
    resources: Mapping[str, int] | None = None,
    changed: Iterable[str] = (),
    previous_result: str | None = None,
    build_number: int = 1,
) -> Trace:
    """Run a Jenkinsfile on a copy of `source` and return what happened, whatever the build's result.

    source: a git repository with a commit (each checkout is a clone of HEAD) or a plain folder (a copy).
    branch, tag, change: the kind of build; a tag or a change (the number of a pull request) replaces the branch.
    labels: the nodes. A key is one node's labels, "linux docker"; its value a folder put first on PATH there.
    docker: the command for docker agents (README.md, "Docker agents"); without it such a stage fails.
    approve: the answer to every `input`, or by stage name (a stage not named is approved).
    input_values: answers to the parameters of inputs. timer: started by cron, not by a push.
    env: more variables of the whole build. timeouts: seconds that replace the `timeout`s of a stage, by its name;
    "" is the pipeline's own. resources: how many lockable resources have a label (one, where it is not named).
    changed: the paths that `changeset` sees. previous_result: for `changed`, `fixed`, `regression`.

    Raises PipelineRefused when the static check refuses the file, ValueError for arguments the runner refuses.
    """
    folder = (workdir or Path(tempfile.mkdtemp(prefix="jenkins-"))).absolute()
    command = [
        "run",
        str(jenkinsfile.absolute()),
        "--workdir",
        str(folder),
        "--source",
        str(source.absolute()),
        "--json",
    ]
    command += ["--trace", str(folder / "trace.json"), "--log", str(folder / "log.txt")]
    if tag is not None:
        command += ["--tag", tag]
    elif change is not None:
        command += ["--change-id", change, "--change-target", change_target]
        command += ["--change-branch", branch] if branch and branch != "main" else []
    elif branch is not None:
        command += ["--branch", branch]
    for name, first in (labels if isinstance(labels, Mapping) else dict.fromkeys(labels)).items():
        command += ["--label", f"{name}={first.absolute()}" if first else name]
    for name, secret in (credentials or {}).items():
        command += ["--credential", f"{name}={_credential(secret)}"]
    command += _pairs("--param", params) + _pairs("--env", env) + _pairs("--input-value", input_values)
    command += _pairs("--stage-timeout", timeouts) + _pairs("--lockable", resources)
    command += ["--docker", str(docker.absolute())] if docker else []
    if isinstance(approve, bool):
        command += ["--input", "approve" if approve else "abort"]
    else:
        command += _pairs("--input-for", {name: "approve" if yes else "abort" for name, yes in approve.items()})
    command += ["--trigger", "timer"] if timer else []
    for path in changed:
        command += ["--changed", path]
    command += ["--previous-result", previous_result] if previous_result else []
    done = jvm.call([*command, "--build-number", str(build_number)])
    if done.exit_code in (2, 3):
        raise PipelineRefused(_problems(done.stdout))
    if done.exit_code not in EXIT_CODES:
        raise ValueError(f"the runner ended with {done.exit_code}: {done.stderr.strip()}")
    return read_trace(folder)


def _problems(text: str) -> list[Problem]:
    return [Problem(**{**item, "file": Path(item["file"])}) for item in json.loads(text)]


def _pairs(option: str, values: Mapping[str, object] | None) -> list[str]:
    return [word for name, value in (values or {}).items() for word in (option, f"{name}={_plain(value)}")]


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _credential(secret: Secret) -> str:
    if isinstance(secret, tuple):
        return f"usernamePassword:{secret[0]}:{secret[1]}"
    return f"file:{secret.absolute()}" if isinstance(secret, Path) else f"string:{secret}"
