"""Several processes in one machine, one for each GPU or as many as asked for, started by the same command."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from ..cores import thread_settings
from .exits import BAD_CONFIGURATION, BAD_INPUT, DONE, RETRY
from .messages import say

WORKER = "JOB_WORKER"
# How the last line of a worker ends that is not the last one.
LEFT_TO_OTHERS = "the last one publishes"


def visible_gpus() -> list[str]:
    """Return what CUDA_VISIBLE_DEVICES says, or else the numbers of the GPUs that have a device node here."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name for name in chosen.split(",") if name.strip() and name.strip() != "-1"]
    nodes = [path for path in Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    return [str(number) for number in range(len(nodes))]


def own_number() -> tuple[int, int]:
    """Return (number, count) of this process among the workers of this machine."""
    number, _, count = os.environ.get(WORKER, "0/1").partition("/")
    return int(number), int(count)


def run_workers(package: str, arguments: Sequence[str], count: int, on_gpus: bool) -> int:
    """Run the same command `count` times, each with its own GPU and its share of the processor's cores.

    Returns the exit code that stands for all. A signal goes to all of them. When one gives up for good (65, 78) or is
    killed, the others go on.
    """
    gpus, threads = visible_gpus(), thread_settings(count)
    processes = []
    for number in range(count):
        environment = os.environ | threads | {WORKER: f"{number}/{count}", "JOB_PARENT": str(os.getpid())}
        if on_gpus:
            environment["CUDA_VISIBLE_DEVICES"] = gpus[number]
        command = [sys.executable, "-m", "gpu_repo_runtime.batch", package, *arguments]
        # In a session of its own, so that Ctrl-C reaches it once: from here.
        processes.append(subprocess.Popen(command, env=environment, start_new_session=True))
    say(f"{count} workers" + (", one for each GPU" if on_gpus else ""))

    def pass_on(received: int, frame: FrameType | None) -> None:
        for process in processes:
            if process.poll() is None:
                process.send_signal(received)

    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, pass_on)
    while any(process.poll() is None for process in processes):
        time.sleep(0.1)
    return combine([process.returncode for process in processes])


def combine(codes: list[int]) -> int:
    """Return the exit code for several workers: what gives up most comes first, success only when all succeed."""
    codes = [128 - code if code < 0 else code for code in codes]
    for code in (BAD_CONFIGURATION, BAD_INPUT, 128 + signal.SIGTERM, 128 + signal.SIGINT):
        if code in codes:
            return code
    return DONE if set(codes) == {DONE} else RETRY
