"""Run children on a machine with a GPU: service, batch job, training. Writes the evidence.

    python -m benchmarks.gpu.prepare FOLDER          # on a machine with a package index
    python -m benchmarks.gpu.run FOLDER --out docs/evidence

It takes five minutes, Python with torch, and no network. Each part that fails is in the file with its error, and the
exit code is then 1.
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
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu.service import SENTENCE, environment, memory, throughput
from benchmarks.harness import machine, write_result

LIMIT_S = 150
JOB = ("gpu_repo_runtime.batch", "trial")
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


@dataclass(frozen=True)
class Run:
    """The prepared folder, a folder for logs, and how long a load lasts."""

    folder: Path
    logs: Path
    seconds: float

    def child(self, module: str, *options: str | Path, **more: str) -> tuple[str, float]:
        """Run a module of the runtime on the child `batch`; return its output and seconds. Raises RuntimeError."""
        began, child = time.monotonic(), self.folder / "batch"
        command, env = [sys.executable, "-m", module, *map(str, options)], environment(self.folder, "batch", **more)
        done = subprocess.run(command, cwd=child, env=env, capture_output=True, text=True, timeout=LIMIT_S)
        said = done.stdout + done.stderr
        if done.returncode:
            raise RuntimeError(f"{module} ended with {done.returncode}: {said[-600:]}")
        return said, round(time.monotonic() - began, 2)


def batch(run: Run) -> Any:
    """Return rows a second of the encoder in the batch job, without its start."""
    words, draw = SENTENCE.split(), random.Random(0)
    texts = run.logs / "texts.jsonl"
    with texts.open("w") as file:
        for _ in range(ROWS):
            file.write(json.dumps({"text": " ".join(draw.choices(words, k=draw.choice([20, 60, 150])))}) + "\n")
    rows = []
    for way, device, count, more in (
        ("CPU", "cpu", ROWS_ON_A_CPU, {}),
        ("GPU", "cuda", ROWS, {}),
        ("GPU, float16", "cuda", ROWS, {"PRECISION": "float16"}),
    ):
        options = ["--input", texts, "--device", device, "--batch-size", "64", "--limit"]
        _, start = run.child(*JOB, "run", *options, "1", "--output", run.logs / f"one {way}", **more)
        _, seconds = run.child(*JOB, "run", *options, str(count), "--output", run.logs / f"result {way}", **more)
        rate = round(count / (seconds - start))
        rows.append({"on": way, "rows": count, "seconds": seconds, "start_s": start, "rows_per_s": rate})
        print(f"batch {rows[-1]}", flush=True)
    return rows


def training(run: Run) -> Any:
    """Return seconds of a step of the second epoch and the peak of the GPU's memory, for each way to train."""
    rows = []
    for name, (device, examples, options) in TRAININGS.items():
        report, output = run.logs / "memory.json", run.logs / f"training {name}"
        report.unlink(missing_ok=True)
        size = [] if "--batch-size" in options else ["--batch-size", str(STEP)]
        command = ["train", "--output", output, "--epochs", "2", "--device", device, *size, *options]
        run.child(*JOB, *command, EXAMPLES=str(examples), MEMORY_REPORT=str(report))
        *_, last = (output / "metrics.csv").read_text().splitlines()
        steps, loss, seconds = int(last.split(",")[1]), float(last.split(",")[2]), float(last.split(",")[-1])
        peak = json.loads(report.read_text())["peak_allocated_mib"] if device == "cuda" else None
        rows.append({"on": name, "step_ms": round(seconds / steps * 1e3, 1), "peak_mib": peak, "training_loss": loss})
        print(f"training {rows[-1]}", flush=True)
    return rows


PARTS: dict[str, Callable[[Run], Any]] = {
    "memory": lambda run: memory(run.folder, run.logs, run.seconds),
    "service": lambda run: throughput(run.folder, run.logs, run.seconds),
    "batch": batch, "training": training,
}  # fmt: skip


def main() -> int:
    """Run the parts and write their results; return the exit code."""
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
    # --parts measures some of a file anew.
    result: dict[str, Any] = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
    result |= {"measured": time.strftime("%Y-%m-%d", time.gmtime()), "machine": about}
    failed = []
    with tempfile.TemporaryDirectory() as logs:
        for part in options.parts.split(","):
            try:
                result[part] = PARTS[part](Run(folder, Path(logs), options.seconds))
            except Exception as error:
                traceback.print_exc()
                result[part] = {"failed": str(error)}
                failed.append(part)
            write_result(target, result)
    print(f"{target}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
