"""Runs a training again and again, stopping it at random moments, and compares it with one that nobody stops."""

from __future__ import annotations

import csv
import hashlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path

from tests.batch.conftest import RUNTIME

OPTIONS = ("--epochs", "3", "--batch-size", "32", "--accumulate", "3", "--checkpoint-steps", "10", "--device", "cpu")


def start(python: str, child: Path, package: str, output: Path, *options: str) -> subprocess.Popen[str]:
    """Start a training with one thread, so that sums are always added up in the same order."""
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    environment |= {
        "PYTHONPATH": f"{child / 'src'}{os.pathsep}{RUNTIME}",
        "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [python, "-m", "gpu_repo_runtime.batch", package, "train", "--output", str(output), *(options or OPTIONS)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def stop_at_random(python: str, child: Path, package: str, folder: Path, seed: int) -> list[int]:
    """Train into `folder`/whole, then into `folder`/stopped with a SIGKILL or SIGTERM at random times in turn.

    Return the exit codes of the second training, the last one 0.
    """
    began = time.monotonic()
    process = start(python, child, package, folder / "whole")
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    whole = time.monotonic() - began
    chance = random.Random(seed)
    codes: list[int] = []
    while 0 not in codes:
        process = start(python, child, package, folder / "stopped")
        try:
            # In shares of the whole, so that the second start is still stopped on any machine; then later and later.
            process.communicate(timeout=chance.uniform(0.25, 0.4) * whole * (1 + len(codes) / 3))
        except subprocess.TimeoutExpired:
            process.send_signal([signal.SIGKILL, signal.SIGTERM][len(codes) % 2])
            process.communicate(timeout=120)
        codes.append(process.returncode)
    assert len(codes) > 2, f"the training was to be stopped twice and ended with {codes}"
    return codes


def outcome(output: Path) -> dict[str, object]:
    """Return the checksum of the best weights and the course without the times."""
    [best] = output.glob("best.*")
    with (output / "metrics.csv").open() as file:
        course = [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]
    return {"weights": hashlib.sha256(best.read_bytes()).hexdigest(), "course": course}
