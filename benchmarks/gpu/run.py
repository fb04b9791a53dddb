"""Run children on a machine with a GPU: service, batch job, training. Writes the evidence.

    python -m benchmarks.gpu.prepare FOLDER          # on a machine with a package index
    python -m benchmarks.gpu.run FOLDER --out docs/evidence

It takes five minutes, Python with torch, and no network. Each part is written when it ends; --parts measures some anew.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu.service import SENTENCE, environment, memory, throughput
from benchmarks.harness import machine, write_result

LIMIT_S = 150
ROWS, ROWS_ON_A_CPU = 20_000, 4_000
STEP = 32  # examples of a step
TRAININGS = {
    "CPU, float32": ("cpu", 4 * STEP, ["--precision", "float32"]),
    "CPU, bfloat16": ("cpu", 2 * STEP, ["--precision", "bfloat16"]),
    "GPU, float32": ("cuda", 40 * STEP, ["--precision", "float32"]),
    "GPU, bfloat16": ("cuda", 40 * STEP, ["--precision", "bfloat16"]),
    "GPU, bfloat16, 4 x 8 accumulated": (
        "cuda", 40 * STEP, ["--precision", "bfloat16", "--batch-size", "8", "--accumulate", "4"],
    ),
}  # fmt: skip


def job(folder: Path, *options: str | Path, **more: str) -> float:
    """Run a command of the batch job's child; return its seconds. Raises CalledProcessError and TimeoutExpired."""
    began, command = time.monotonic(), [sys.executable, "-m", "gpu_repo_runtime.batch", "trial", *options]
    subprocess.run(command, cwd=folder / "batch", env=environment(folder, "batch", **more), check=True, timeout=LIMIT_S)
    return round(time.monotonic() - began, 2)


def batch(folder: Path, logs: Path, _seconds: float) -> list[dict[str, Any]]:
    """Return rows a second of the encoder in the batch job, without its start."""
    words, draw = SENTENCE.split(), random.Random(0)
    texts = logs / "texts.jsonl"
    with texts.open("w") as file:
        for _ in range(ROWS):
            file.write(json.dumps({"text": " ".join(draw.choices(words, k=draw.choice([20, 60, 150])))}) + "\n")
    rows = []
    for way, device, count, more in (
        ("CPU", "cpu", ROWS_ON_A_CPU, {}),
        ("GPU", "cuda", ROWS, {}),
        ("GPU, float16", "cuda", ROWS, {"PRECISION": "float16"}),
    ):
        options: list[str | Path] = ["--input", texts, "--device", device, "--batch-size", "64", "--limit"]
        start = job(folder, "run", *options, "1", "--output", logs / f"one {way}", **more)
        seconds = job(folder, "run", *options, str(count), "--output", logs / f"result {way}", **more)
        rate = round(count / (seconds - start))
        rows.append({"on": way, "rows": count, "seconds": seconds, "start_s": start, "rows_per_s": rate})
        print(f"batch {rows[-1]}", flush=True)
    return rows


def training(folder: Path, logs: Path, _seconds: float) -> list[dict[str, Any]]:
    """Return seconds of a step of the second epoch and the peak of the GPU's memory, for each way to train."""
    rows = []
    for name, (device, examples, options) in TRAININGS.items():
        report, output = logs / "memory.json", logs / f"training {name}"
        size = [] if "--batch-size" in options else ["--batch-size", str(STEP)]
        command = ["train", "--epochs", "2", "--device", device, *size, *options, "--output", str(output)]
        job(folder, *command, EXAMPLES=str(examples), MEMORY_REPORT=str(report))
        *_, last = (output / "metrics.csv").read_text().splitlines()
        _, steps, loss, seconds = map(float, last.split(",")[:4])
        peak = int(report.read_text()) or None
        rows.append({"on": name, "step_ms": round(seconds / steps * 1e3, 1), "peak_mib": peak, "training_loss": loss})
        print(f"training {rows[-1]}", flush=True)
    return rows


# Each gets the prepared folder, a folder for logs, and the seconds of a load.
PARTS: dict[str, Callable[[Path, Path, float], Any]] = {
    "memory": memory,
    "service": throughput,
    "batch": batch,
    "training": training,
}


def main() -> None:
    """Run the parts and write their results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="made by benchmarks.gpu.prepare")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", default=",".join(PARTS), help="some of them, separated by commas")
    parser.add_argument("--seconds", type=float, default=4, help="of each load")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if not (folder / "packages").is_dir():
        parser.error(f"{options.folder} was not made by python -m benchmarks.gpu.prepare")
    sys.path.append(str(folder / "packages"))
    import torch

    if not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU here")
    about = machine(gpu=torch.cuda.get_device_name(), torch=torch.__version__)
    name = re.sub(r"[^a-z0-9]+", "-", str(about["gpu"]).lower()).strip("-")
    target = options.out / f"workloads-{name}.json"
    result: dict[str, Any] = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
    result |= {"measured": time.strftime("%Y-%m-%d", time.gmtime()), "machine": about}
    with tempfile.TemporaryDirectory() as logs:
        for part in options.parts.split(","):
            result[part] = PARTS[part](folder, Path(logs), options.seconds)
            write_result(target, result)
    print(target)


if __name__ == "__main__":
    main()
