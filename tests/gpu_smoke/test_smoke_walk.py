"""The walk as it runs: its first line, what it holds open, how it ends, what a terminal sees."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.gpu_smoke.smoke_machine import MODELS, Machine
from tests.sampling import sampled


def test_first_line_comes_before_the_walk(machine: Machine) -> None:
    machine.good().set(FAULT="hang:cuInit")
    command = [sys.executable, "-m", "gpu_smoke", "--timeout", "5"]
    began = time.monotonic()
    with subprocess.Popen(command, env=machine.environment(), cwd=machine.home, stdout=subprocess.PIPE) as process:
        line = process.stdout.readline()
        waited = time.monotonic() - began
        process.kill()
    assert line.startswith(b"gpu-smoke ")
    # The figure itself (0.2 s) is measured by the benchmark; here the machine may be busy.
    assert waited < 3, f"the first line took {waited:.2f} s while a probe hangs for 5 s"


def test_killed_walk_leaves_no_child(machine: Machine) -> None:
    machine.good().set(FAULT="hang:cuInit")
    command = [sys.executable, "-m", "gpu_smoke", "--timeout", "60"]
    with subprocess.Popen(command, env=machine.environment(), cwd=machine.home, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        children: list[int] = []
        end = time.monotonic() + 20
        while not children and time.monotonic() < end:
            text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
            children = [int(pid) for pid in text.split()]
        time.sleep(0.5)
        process.kill()
    assert children, "no probe was seen"
    end = time.monotonic() + 10
    while any(_alive(pid) for pid in children) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(_alive(pid) for pid in children), "a probe outlived the walk"


def _holders(node: Path) -> set[str]:
    found = set()
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it may end meanwhile, and close what it had open
            if str(node) in {os.readlink(link) for link in Path("/proc", process, "fd").iterdir()}:
                found.add(process)
    return found


def test_the_gpu_stays_open_while_the_walk_runs(machine: Machine) -> None:
    """Without persistence mode a GPU stops with its last user, and every probe would start it anew."""
    machine.good().set(FAULT="hang:cuInit")
    command = [sys.executable, "-m", "gpu_smoke", "--timeout", "60"]
    node, end = machine.root / "dev" / "nvidia0", time.monotonic() + 20
    with subprocess.Popen(command, env=machine.environment(), cwd=machine.home, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        while not (seen := _holders(node)) and time.monotonic() < end:
            time.sleep(0.05)
        process.kill()
    assert len(seen) == 1, f"the GPU's node is open in {seen or 'no process'}"
    while _holders(node) and time.monotonic() < end + 10:
        time.sleep(0.05)
    assert not _holders(node), "a holder outlived the walk"


@pytest.mark.parametrize("number", sampled([signal.SIGINT, signal.SIGTERM], [signal.SIGTERM]))
@pytest.mark.parametrize("place", ["cuInit", "cuCtxSynchronize"])
def test_interrupt_is_3_and_says_so(machine: Machine, number: signal.Signals, place: str) -> None:
    machine.good().set(FAULT=f"hang:{place}")
    command = [sys.executable, "-m", "gpu_smoke", "--timeout", "60", "--json", "report.json"]
    # Tests that were started in the background pass on that SIGINT is ignored.
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen(command, env=machine.environment(), cwd=machine.home, **pipes, **heard) as process:
        process.stdout.readline()
        time.sleep(1)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 3
    assert errors == b"gpu-smoke: could not run: interrupted\n"
    assert children, "no probe was seen"
    assert not any(_alive(int(pid)) for pid in children), "a probe outlived the walk"
    assert not (machine.home / "report.json").exists()


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


def test_one_process_asks_driver_and_management_library(machine: Machine) -> None:
    """Each process that opens a GPU may start it anew: NVML, kernels, memory, libraries and all-reduce share one."""
    log = machine.home / "started"
    result = machine.good().set(COUNT=2, LOG=log).run("--require", "gpu")
    assert result.code == 0, result.text
    started = log.read_text().split()
    assert len(started) >= 3, "NVML, the driver's start and the kernels are logged"
    assert len(set(started)) == 1, f"{len(set(started))} processes opened the GPU"


HANGS = {
    "cuInit": lambda m: m.set(FAULT="hang:cuInit"),
    "nvmlInit": lambda m: m.set(NVML_HANG=1),
    "cuModuleLoadData": lambda m: m.set(FAULT="hang:cuModuleLoadData"),
    "cuCtxSynchronize": lambda m: m.set(FAULT="hang:cuCtxSynchronize"),
}


@pytest.mark.parametrize("place", sampled(HANGS, ["cuInit"]))
def test_a_call_that_hangs_costs_one_timeout(machine: Machine, place: str) -> None:
    """What needs the same is not tried again."""
    HANGS[place](machine.good()).python_path.append(MODELS)
    arguments = ("--timeout", "2", "--require", "model", "--model", "smoke_models:Model")
    result = machine.run(*arguments)
    late = [name for name, facts in result.report["facts"].items() if facts.get("fault", {}).get("kind") == "timeout"]
    assert len(late) == 1, f"{late} ran over their time\n{result.text}"
    assert "GS002" in result.codes(), result.text
    # CUDA works without NVML: its hang costs a time limit and decides nothing.
    assert (result.code, bool(result.report["cause"])) == ((0, False) if place == "nvmlInit" else (1, True)), (
        result.text
    )
