"""What the benchmarks share: the machine, programs that are measured, ways that take turns, and result files."""

from __future__ import annotations

import json
import os
import platform
import signal
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path

READY_S, STOP_S = 300, 40

Figures = dict[str, float]


def machine(packages: Iterable[str] = (), **more: object) -> dict[str, object]:
    """Describe the machine without naming it, with the versions of packages."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    versions = {name: metadata.version(name) for name in packages}
    return {
        "cpu": next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), platform.machine()),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
    } | ({"versions": versions} if versions else {}) | more  # fmt: skip


def as_json(value: object) -> str:
    """Return the text of a result file: a line for each figure, so that a review shows which of them changed."""
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def write_result(file: Path, result: object) -> None:
    """Write a result file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(as_json(result), encoding="utf-8")


def take_turns(ways: Mapping[str, Callable[[], Figures]], rounds: int) -> dict[str, list[Figures]]:
    """Measure every way once in each round, in turn forwards and backwards: what disturbs them disturbs all of them."""
    found: dict[str, list[Figures]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in list(ways)[:: -1 if number % 2 else 1]:
            found[name].append(ways[name]())
            print(f"{name}: {found[name][-1]}", flush=True)
    return found


def medians(rounds: list[Figures]) -> Figures:
    """Return the median of each figure."""
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def memory_mib(pid: int) -> float:
    """Return the memory of a process and all below it; shared pages are divided among their users."""
    total = 0.0
    with suppress(OSError):  # it may have ended
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
        for listed in Path(f"/proc/{pid}/task").glob("*/children"):
            total += sum(memory_mib(int(child)) for child in listed.read_text().split())
    return total


def measured(
    command: list[str], environment: Mapping[str, str] | None = None, allowed: Iterable[int] = (0,)
) -> Figures:
    """Run a program; return its seconds, processor seconds of all processes, and MiB of all and of the largest one.

    Raises SystemExit where its exit code is not an allowed one.
    """
    with tempfile.TemporaryFile("w+") as log:
        started, highest = time.perf_counter(), 0.0
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        while True:
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            highest = max(highest, memory_mib(process.pid))
            time.sleep(0.1)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in allowed:
            log.seek(0)
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{log.read()[-3000:]}")
    cpu = used.ru_utime + used.ru_stime
    return {"wall_s": wall, "cpu_s": cpu, "memory_mib": highest, "largest_process_mib": used.ru_maxrss // 1024}


@contextmanager
def serving(
    command: list[str], environment: Mapping[str, str], ready: urllib.request.Request, log: Path
) -> Iterator[int]:
    """Run a server in its own process group until it answers a request; yield its process id, then stop it."""
    with log.open("w") as written:
        process = subprocess.Popen(command, env=environment, stdout=written, stderr=written, start_new_session=True)
    try:
        until = time.monotonic() + READY_S
        while True:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{' '.join(command)} did not start: {log.read_text()[-800:]}")
            with suppress(OSError), urllib.request.urlopen(ready, timeout=5):
                break
            time.sleep(0.05)
        yield process.pid
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, number)
                process.wait(STOP_S)
