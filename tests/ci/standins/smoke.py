"""Stands in for gpu-smoke inside a container: the real one where there is no GPU, else the model on the CPU.

Files beside the engine's `nvidiactl` make it another: `smoke-fails` computes nonsense, `smoke-hangs` nothing at all.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import time
from pathlib import Path

REAL = Path(__file__).resolve().parents[3] / "base-images"
JUNIT = (
    '<testsuite name="gpu-smoke" tests="1" failures="{count}"><testcase name="model">{failure}</testcase></testsuite>'
)
LAYERS = {  # the names and levels of the real one's layers
    "driver": ("device-nodes", "kernel-module", "user-driver", "driver-init"),
    "gpu": ("nvml", "runtime", "compatibility", "kernels", "memory", "cublas"),
    "model": ("model",),
}


def report(options: dict[str, str], verdict: str) -> dict[str, object]:
    """Return what the real one would write on a plain image, as far as a promotion reads it."""
    row = os.environ["STANDIN_ROW"]
    levels = LAYERS if "--model" in options else {name: LAYERS[name] for name in ("driver", "gpu")}
    layers = [{"name": name, "level": level, "state": verdict} for level, names in levels.items() for name in names]
    image = {"name": row, "certificates": []}
    return {
        "verdict": verdict, "layers": layers, "require": options.get("--require", "none"),
        "framework": row.partition("-")[0], "image": image,
    }  # fmt: skip


def main() -> int:
    """Take the options that children's scripts give; return the exit code of gpu-smoke."""
    gpu = os.environ.get("STANDIN_GPU")
    if not gpu:
        sys.path.insert(0, str(REAL))
        runpy.run_module("gpu_smoke", run_name="__main__", alter_sys=True)
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    if Path(gpu or "", "smoke-hangs").exists():
        time.sleep(600)
    fails = Path(gpu or "", "smoke-fails").exists()
    if not fails and "--model" in options:
        module, _, name = options["--model"].partition(":")
        model = getattr(importlib.import_module(module), name)()
        importlib.import_module("gpu_repo_runtime.weights").load(model, "cpu")
        assert len(model.predict(list(model.examples))) == len(model.examples)
    said = "GPU and CPU differ" if fails else "all good"
    Path(options["--json"]).write_text(json.dumps(report(options, "fail" if fails else "pass")))
    failure = f'<failure message="{said}"/>' if fails else ""
    Path(options["--junit"]).write_text('<?xml version="1.0"?>' + JUNIT.format(count=int(fails), failure=failure))
    print(f"gpu-smoke: {said} (a stand-in for a GPU)")
    return int(fails)


if __name__ == "__main__":
    sys.exit(main())
