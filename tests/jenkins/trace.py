"""What a run of a Jenkinsfile did; README.md lists the events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Event:
    """One step or decision, in the order it happened. `data` holds what README.md lists for `step`."""

    step: str
    stage: int | None
    label: str | None
    post: str | None
    data: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.data[key]


@dataclass(frozen=True)
class Command:
    """One `sh` that ran. `exit_code` is None when it was stopped. `output` is masked."""

    script: str
    exit_code: int | None
    output: str
    label: str | None
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

    `path` names the stages around it and itself; a cell is named as Jenkins does, "Matrix - ROW = 'torch'".
    `result` is SUCCESS, UNSTABLE, FAILURE, ABORTED or NOT_BUILT; `skipped` says why it did not run, else None.
    """

    number: int
    name: str
    path: tuple[str, ...]
    axes: Mapping[str, str]
    label: str | None
    result: str
    skipped: str | None
    error: str | None
    started_ms: int | None
    events: tuple[Event, ...] = field(repr=False)

    @property
    def ran(self) -> bool:
        """Whether it was entered, which its agent or options may still have failed."""
        return self.skipped is None

    @property
    def commands(self) -> list[Command]:
        """The `sh` steps of this stage, its post part included (`command.post` names the condition)."""
        return [_command(event) for event in self.of("sh")]

    @property
    def locks(self) -> list[str]:
        """The names of the resources that it held."""
        return [event["resource"] for event in self.of("lock")]

    @property
    def reports(self) -> list[Report]:
        """What its `junit` steps counted."""
        return [Report(tuple(e["files"]), e["total"], e["failed"], e["skipped"]) for e in self.of("junit")]

    def of(self, step: str) -> list[Event]:
        """Return the stage's own events of one kind, without those of the stages inside it."""
        return [event for event in self.events if event.step == step]


@dataclass(frozen=True)
class Trace:
    """One build. `log` is its whole console text, masked; `workdir` holds workspaces, stash/ and archive/."""

    result: str
    error: str | None
    events: tuple[Event, ...] = field(repr=False)
    all_stages: tuple[Stage, ...] = field(repr=False)
    log: str = field(repr=False)
    workdir: Path

    def stages(self, name: str | None = None, **axes: str) -> list[Stage]:
        """Return the stages in the order of the file, of one name and of the cells with these axis values."""
        named = [stage for stage in self.all_stages if name in (None, stage.name)]
        return [stage for stage in named if axes.items() <= dict(stage.axes).items()]

    def stage(self, name: str, **axes: str) -> Stage:
        """Return the one stage of that name, e.g. stage("Build", ROW="torch"). Raises LookupError."""
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
        """Every `sh` of the build in the order in which they ended."""
        return [_command(event) for event in self.events if event.step == "sh"]

    @property
    def archive(self) -> Path:
        """The folder with the archived files; it exists only if something was archived."""
        return self.workdir / "archive"


def read_trace(told: dict[str, Any], workdir: Path) -> Trace:
    """Read what the runner tells about a run."""
    events = tuple(_event(entry) for entry in told["events"])
    stages = tuple(
        Stage(**{**s, "path": tuple(s["path"])}, events=tuple(e for e in events if e.stage == s["number"]))
        for s in told["stages"]
    )
    return Trace(told["result"], told["error"], events, stages, told["log"], workdir)


def _event(entry: dict[str, Any]) -> Event:
    common = {key: entry.pop(key) for key in ("step", "stage", "label", "post")}
    return Event(**common, data=entry)


def _command(event: Event) -> Command:
    return Command(event["script"], event["exit_code"], event["output"], event.label, event.post)
