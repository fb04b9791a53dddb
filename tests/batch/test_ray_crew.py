"""What the start on Ray does about nodes and workers that are not as they should be: around a Ray that a test plays."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from gpu_repo_runtime.batch import onray
from gpu_repo_runtime.batch.plan import code_fingerprint

from tests.batch.conftest import PACKAGE, write_jsonl


class RayError(Exception):
    """As Ray raises them for an actor that has died."""


@dataclass
class PlayedRay:
    """As much of Ray as the start uses. says: what a method of the actor with a number answers; it may raise."""

    says: Callable[[int, str], Any]
    refusals: int = 0
    actors: list[int] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)
    called: list[tuple[int, str]] = field(default_factory=list)
    exceptions: Any = field(default_factory=lambda: SimpleNamespace(RayError=RayError))
    cloudpickle: Any = field(default_factory=lambda: SimpleNamespace(register_pickle_by_value=lambda module: None))

    def init(self, address: str, **_: Any) -> None:
        self.refusals -= 1
        if self.refusals >= 0:
            raise ConnectionError("ray client connection timeout")

    def shutdown(self) -> None:
        pass

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": f"node {n}", "Alive": True, "Resources": {"CPU": 2.0}} for n in range(2)]

    def remote(self, _: type) -> Any:
        def made(environment: dict[str, str], paths: list[str]) -> Any:
            number = len(self.actors)
            self.actors.append(int(environment["JOB_WORKER"].partition("/")[0]))

            def method(name: str) -> Any:
                return SimpleNamespace(remote=lambda *_: self.called.append((number, name)) or (number, name, object()))

            return SimpleNamespace(number=number, **{name: method(name) for name in ("place", "look", "run", "stop")})

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=made))

    def wait(self, doing: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        return doing, []

    def get(self, doing: Any) -> Any:
        number, name, _ = doing
        return (f"host-{number}", f"node {number % 2}") if name == "place" else self.says(number, name)

    def kill(self, actor: Any) -> None:
        self.killed.append(actor.number)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., PlayedRay]]:
    """Return a function that makes the Ray that the job imports."""
    monkeypatch.setattr(onray, "PAUSE_SECONDS", 0.01)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def make(says: Callable[[int, str], Any], **options: Any) -> PlayedRay:
        ray = PlayedRay(says, **options)
        monkeypatch.setitem(sys.modules, "ray", ray)
        return ray

    yield make
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def run(job, out, tmp_path):
    """Return a function that starts the job on two nodes."""
    lines = write_jsonl(tmp_path / "a.jsonl", ["x"])
    return lambda *options: job("--input", lines, "--output", out.path, "--on", "ray://head:10001", *options)


def seen(**other: str) -> tuple[dict[str, str], str]:
    """Return what a node has, like that of this checkout but for what is named."""
    return {"code": code_fingerprint(PACKAGE), "weights": "w", "versions": "v"} | other, ""


@pytest.mark.parametrize(
    ("other", "which", "message"),
    [
        ({"code": "older"}, 0, "host-0 cannot work: it has other code than this checkout"),
        ({"code": "older"}, 1, "host-1 cannot work: it has other code than this checkout"),
        ({"weights": "older"}, 1, "host-1 cannot work: it has other weights than the first node"),
        ({"versions": "older"}, 1, "host-1 cannot work: it has other versions than the first node"),
    ],
)
def test_a_node_with_other_code_or_weights_is_refused(played, run, capsys, other, which, message):
    ray = played(lambda actor, method: seen(**other if actor == which else {}) if method == "look" else (0, ""))
    assert run() == 78
    assert message in capsys.readouterr().err
    assert (which, "run") not in ray.called, "it has worked"
    assert sorted(ray.killed) == [0, 1], "an actor is left behind"


def test_a_cluster_that_is_not_there_yet_is_waited_for(played, run, capsys):
    ray = played(lambda actor, method: seen() if method == "look" else (0, ""), refusals=2)
    assert run() == 0
    assert ray.refusals == -1
    assert capsys.readouterr().err.count("no Ray cluster answers at ray://head:10001 yet") == 2


def test_a_cluster_that_never_answers_is_another_try_of_the_job(played, run, capsys, monkeypatch):
    monkeypatch.setattr(onray, "CONNECT_SECONDS", 0.05)
    played(lambda actor, method: None, refusals=1000)
    assert run() == 1
    assert (
        "no Ray cluster answers at ray://head:10001: ConnectionError: ray client connection timeout"
        in capsys.readouterr().err
    )


def test_a_worker_that_is_lost_begins_again_three_times(played, run, capsys):
    def says(actor: int, method: str) -> Any:
        if method == "look":
            return seen()
        if ray.actors[actor] == 1:
            raise RayError("the actor died")
        return 0, ""

    ray = played(says)
    assert run() == 1
    assert ray.actors.count(1) == onray.TRIES
    assert f"try {onray.TRIES} of {onray.TRIES}" in capsys.readouterr().err


def test_a_worker_whose_input_is_bad_is_not_started_again(played, run):
    ray = played(lambda actor, method: seen() if method == "look" else (65 if actor else 0, "row 7"))
    assert run() == 65
    assert ray.actors == [0, 1]


# What Ray does while nobody answers: it waits, with a handler of its own that raises SystemExit at SIGTERM.
SILENT = """
import signal, sys, time

class cloudpickle:
    register_pickle_by_value = staticmethod(lambda module: None)

def init(*_, **__):
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
    print("WAITS", file=sys.stderr, flush=True)
    time.sleep(600)

def shutdown(): ...
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_no_cluster_answers(job, tmp_path, out, number):
    (tmp_path / "ray.py").write_text(SILENT)
    lines = write_jsonl(tmp_path / "a.jsonl", ["x"])
    path = f"{tmp_path}{os.pathsep}{job.path}"
    process = job.start("--input", lines, "--output", out.path, "--on", "ray://head:10001", PYTHONPATH=path)
    assert process.stderr is not None
    for line in process.stderr:
        if "WAITS" in line:
            break
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + number, said
    assert len(said.splitlines()) == 1, said
    assert "start the same command again to go on" in said
