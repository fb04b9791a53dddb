"""Run and check declarative Jenkinsfiles from Python tests; the schema of a trace is in README.md beside this file.

trace = run_pipeline(child / "Jenkinsfile", child, branch="main", labels={"linux": None, "gpu": fake_smi_folder})
assert trace.result == "SUCCESS"
assert trace.stage("GPU smoke test").label == "gpu"
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.jenkins import jvm

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


@dataclass(frozen=True)
class Event:
    """One step or decision, in the order it happened. `data` holds what README.md lists for `step`."""

    number: int
    at_ms: int
    step: str
    stage: int | None
    label: str | None
    node: str | None
    image: str | None
    post: str | None
    data: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.data[key]


@dataclass(frozen=True)
class Command:
    """One `sh` that ran. `exit_code` is None when it was stopped. `output` is masked, at most 64 KiB."""

    script: str
    exit_code: int | None
    output: str
    duration_ms: int
    label: str | None
    node: str | None
    image: str | None
    post: str | None


@dataclass(frozen=True)
class Report:
    """What one `junit` step counted."""

    files: tuple[str, ...]
    total: int
    failed: int
    skipped: int


@dataclass(frozen=True)
class Stage:
    """One stage of the build: ran, skipped or never reached. In a matrix each cell has its own stages.

    `path` names the stages around it and itself; a cell is named as Jenkins does, "Matrix - FLAVOR = 'torch'".
    `result` is SUCCESS, UNSTABLE, FAILURE, ABORTED or NOT_BUILT; `skipped` says why it did not run, else None.
    """

    number: int
    name: str
    path: tuple[str, ...]
    line: int
    axes: Mapping[str, str]
    label: str | None
    node: str | None
    image: str | None
    result: str
    skipped: str | None
    error: str | None
    started_ms: int | None
    duration_ms: int
    events: tuple[Event, ...] = field(repr=False)

    @property
    def ran(self) -> bool:
        """Whether the stage's body was reached."""
        return self.skipped is None

    @property
    def commands(self) -> list[Command]:
        """The `sh` steps of this stage, its post part included (`command.post` names the condition)."""
        keys = ("script", "exit_code", "output", "duration_ms")
        return [
            Command(*(e[key] for key in keys), label=e.label, node=e.node, image=e.image, post=e.post)
            for e in self.of("sh")
        ]

    @property
    def locks(self) -> list[str]:
        """The names of the resources that it held."""
        return [event["resource"] for event in self.of("lock")]

    @property
    def stashes(self) -> dict[str, list[str]]:
        """The files of each stash that it made."""
        return {event["name"]: event["files"] for event in self.of("stash")}

    @property
    def unstashed(self) -> list[str]:
        """The names of the stashes that it took."""
        return [event["name"] for event in self.of("unstash")]

    @property
    def archived(self) -> list[str]:
        """The files that it archived."""
        return [file for event in self.of("archiveArtifacts") for file in event["files"]]

    @property
    def reports(self) -> list[Report]:
        """What its `junit` steps counted."""
        return [Report(tuple(e["files"]), e["total"], e["failed"], e["skipped"]) for e in self.of("junit")]

    @property
    def inputs(self) -> list[tuple[str, str]]:
        """(message, answer) of each `input`; the answer is "approve" or "abort"."""
        return [(event["message"], event["answer"]) for event in self.of("input")]

    @property
    def credentials(self) -> list[str]:
        """The ids of the credentials that it was given."""
        return [event["id"] for event in self.of("credentials")]

    def of(self, step: str) -> list[Event]:
        """Return the stage's own events of one kind, without those of the stages inside it."""
        return [event for event in self.events if event.step == step]


@dataclass(frozen=True)
class Trace:
    """One build. `log` is its whole console text, masked; `workdir` holds workspaces, archive/ and trace.json."""

    result: str
    error: str | None
    params: Mapping[str, Any]
    events: tuple[Event, ...] = field(repr=False)
    all_stages: tuple[Stage, ...] = field(repr=False)
    log: str = field(repr=False)
    workdir: Path
    duration_ms: int
    description: str | None = None

    def stages(self, name: str | None = None, **axes: str) -> list[Stage]:
        """Return the stages in the order of the file, of one name and of the cells with these axis values."""
        named = [stage for stage in self.all_stages if name in (None, stage.name)]
        return [stage for stage in named if axes.items() <= dict(stage.axes).items()]

    def stage(self, name: str, **axes: str) -> Stage:
        """Return the one stage of that name, e.g. stage("Build", FLAVOR="torch"). Raises LookupError."""
        found = self.stages(name, **axes)
        if len(found) != 1:
            known = sorted({" / ".join(stage.path) for stage in self.all_stages})
            raise LookupError(f"{len(found)} stages are named {name!r} with {axes or 'any axes'}; there are: {known}")
        return found[0]

    @property
    def ran(self) -> list[str]:
        """The names of the stages that ran, in the order in which they started."""
        started = [stage for stage in self.all_stages if stage.ran and stage.started_ms is not None]
        return [stage.name for stage in sorted(started, key=lambda stage: (stage.started_ms or 0, stage.number))]

    @property
    def skipped(self) -> dict[str, str]:
        """Why each stage that did not run was left out, by name."""
        return {stage.name: stage.skipped for stage in self.all_stages if stage.skipped is not None}

    @property
    def commands(self) -> list[Command]:
        """Every `sh` of the build in the order in which they ended, of stages and of the pipeline's own post part."""
        keys = ("script", "exit_code", "output", "duration_ms")
        return [
            Command(*(e[key] for key in keys), label=e.label, node=e.node, image=e.image, post=e.post)
            for e in self.events
            if e.step == "sh"
        ]

    @property
    def archive(self) -> Path:
        """The folder with the archived files; it exists only if something was archived."""
        return self.workdir / "archive"


def check(*jenkinsfiles: Path) -> list[Problem]:
    """Check the structure and the syntax of Jenkinsfiles; nothing in them is run. Return all problems in order."""
    done = jvm.call(["check", "--json", *map(str, jenkinsfiles)])
    return _problems(done.stdout) if done.stdout.strip() else []


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
    env: more variables of the whole build. timeouts: seconds that replace the `timeout` of a stage, by its name;
    "" is the pipeline's own. changed: the paths that `changeset` sees. previous_result: for `changed`, `fixed`.

    Raises PipelineRefused when the static check refuses the file, ValueError for arguments the runner refuses.
    """
    folder = workdir or Path(tempfile.mkdtemp(prefix="jenkins-"))
    command = ["run", str(jenkinsfile), "--workdir", str(folder), "--source", str(source), "--json"]
    command += ["--trace", str(folder / "trace.json"), "--log", str(folder / "log.txt")]
    if tag is not None:
        command += ["--tag", tag]
    elif change is not None:
        command += ["--change-id", change, "--change-target", change_target]
        command += ["--change-branch", branch] if branch and branch != "main" else []
    elif branch is not None:
        command += ["--branch", branch]
    for name, first in (labels if isinstance(labels, Mapping) else dict.fromkeys(labels)).items():
        command += ["--label", f"{name}={first}" if first else name]
    for name, secret in (credentials or {}).items():
        command += ["--credential", f"{name}={_credential(secret)}"]
    command += _pairs("--param", params) + _pairs("--env", env) + _pairs("--input-value", input_values)
    command += _pairs("--stage-timeout", timeouts)
    command += ["--docker", str(docker)] if docker else []
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


def read_trace(workdir: Path) -> Trace:
    """Read trace.json and log.txt of a run's folder."""
    written = json.loads((workdir / "trace.json").read_text(encoding="utf-8"))
    common = ("number", "at_ms", "step", "stage", "label", "node", "image", "post")
    events = tuple(
        Event(*(e[key] for key in common), data={key: value for key, value in e.items() if key not in common})
        for e in written["events"]
    )
    stages = tuple(
        Stage(**{**s, "path": tuple(s["path"])}, events=tuple(e for e in events if e.stage == s["number"]))
        for s in written["stages"]
    )
    return Trace(
        result=written["result"],
        error=written["error"],
        params=written["params"],
        events=events,
        all_stages=stages,
        log=(workdir / "log.txt").read_text(encoding="utf-8"),
        workdir=workdir,
        duration_ms=written["duration_ms"],
        description=written["description"],
    )


def _problems(text: str) -> list[Problem]:
    return [Problem(**{**item, "file": Path(item["file"])}) for item in json.loads(text)]


def _pairs(option: str, values: Mapping[str, object] | None) -> list[str]:
    return [word for name, value in (values or {}).items() for word in (option, f"{name}={_plain(value)}")]


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _credential(secret: Secret) -> str:
    if isinstance(secret, tuple):
        return f"usernamePassword:{secret[0]}:{secret[1]}"
    return f"file:{secret}" if isinstance(secret, Path) else f"string:{secret}"
