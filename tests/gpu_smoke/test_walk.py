"""The walk as it runs: its first line, what it holds open, how it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gpu_smoke.smoke_machine import MODELS, Machine


@contextlib.contextmanager
def hanging_walk(machine: Machine, place: str = "cuInit") -> Iterator[tuple[subprocess.Popen, list[int]]]:
    """Start a walk that hangs in a call; give it when its first line is out and its probes run, with their numbers."""
    command = [sys.executable, "-m", "gpu_smoke", "--timeout", "60", "--json", "report.json"]
    # Tests that were started in the background pass on that SIGINT is ignored.
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = machine.good().set(FAULT=f"hang:{place}").environment()
    with subprocess.Popen(command, env=environment, cwd=machine.home, **pipes, **heard) as process:
        assert process.stdout.readline().startswith(b"gpu-smoke "), "the first line comes before the walk"
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        comes_true(lambda: listed.read_text().split())
        time.sleep(0.5)
        yield process, [int(pid) for pid in listed.read_text().split()]
        process.kill()


def comes_true(condition: Callable[[], object], seconds: float = 20) -> None:
    """Wait for a condition. Raises AssertionError when it does not come true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


def holders(node: Path) -> set[str]:
    found = set()
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it may end meanwhile, and close what it had open
            if str(node) in {os.readlink(link) for link in Path("/proc", process, "fd").iterdir()}:
                found.add(process)
    return found


def test_a_killed_walk_leaves_no_probe_and_no_open_node(machine: Machine) -> None:
    """Without persistence mode a GPU stops with its last user: one process keeps it open while the walk runs."""
    node = machine.root / "dev" / "nvidia0"
    with hanging_walk(machine) as (process, probes):
        comes_true(lambda: len(holders(node)) == 1)
        process.kill()
        comes_true(lambda: not any(map(is_alive, probes)) and not holders(node))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("place", ["cuInit", "cuCtxSynchronize"])
def test_interrupt_is_3_and_says_so(machine: Machine, number: signal.Signals, place: str) -> None:
    with hanging_walk(machine, place) as (process, probes):
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (3, b"gpu-smoke: could not run: interrupted\n")
    assert probes
    assert not any(map(is_alive, probes)), "a probe outlived the walk"
    assert not (machine.home / "report.json").exists()


def test_one_process_asks_driver_and_management_library(machine: Machine) -> None:
    """Each process that opens a GPU may start it anew: NVML, kernels, memory, libraries and all-reduce share one."""
    log = machine.home / "started"
    result = machine.good().set(COUNT=2, LOG=log).run("--require", "gpu")
    assert result.code == 0, result.text
    started = log.read_text().split()
    assert len(started) >= 3, "NVML, the driver's start and the kernels are logged"
    assert len(set(started)) == 1, f"{len(set(started))} processes opened the GPU"


@pytest.mark.parametrize("hang", [{"FAULT": "hang:cuInit"}, {"FAULT": "hang:cuCtxSynchronize"}, {"NVML_HANG": 1}])
def test_a_call_that_hangs_costs_one_timeout(machine: Machine, hang: dict[str, object]) -> None:
    """What needs the same is not tried again. CUDA works without NVML, whose hang decides nothing."""
    machine.good().set(**hang).python_path.append(MODELS)
    result = machine.run("--timeout", "2", "--require", "model", "--model", "smoke_models:Model")
    late = [name for name, facts in result.report["facts"].items() if facts.get("fault", {}).get("kind") == "timeout"]
    assert len(late) == 1, f"{late} ran over their time\n{result.text}"
    assert "GS002" in result.codes(), result.text
    assert result.code == (0 if "NVML_HANG" in hang else 1), result.text
