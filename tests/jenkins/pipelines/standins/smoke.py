"""Stands in for gpu-smoke inside a container: the real one where there is no GPU, else the model on the CPU.

Files beside the engine's `nvidiactl` make it another: `smoke-fails` computes nonsense, `smoke-hangs` nothing at all;
`smoke-lies`, `smoke-skips` and `smoke-silent` exit 0 with a report that says fail, that says skip, and with none.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import time
from pathlib import Path

REAL = Path(__file__).resolve().parents[4] / "base-images"
JUNIT = """<?xml version="1.0"?>
<testsuite name="gpu-smoke" tests="2" failures="{failures}"><testcase name="driver"/><testcase name="model">
{failure}</testcase></testsuite>
"""
LAYERS = {  # the names and levels of the real one's layers
    "driver": ("device-nodes", "kernel-module", "user-driver", "driver-init"),
    "gpu": ("nvml", "runtime", "compatibility", "kernels", "memory", "cublas"),
    "framework": ("framework",),
    "model": ("model",),
}


def report(options: dict[str, str], verdict: str, skips: bool) -> dict[str, object]:
    """Return what the real one would write, as far as a promotion reads it."""
    row = os.environ["STANDIN_ROW"]
    framework, state = row.split("-")[0].rstrip("0123456789"), "skip" if skips else verdict
    layers = [
        {"name": name, "level": level, "state": "skip" if (name, framework) == ("framework", "plain") else state}
        for level, names in LAYERS.items()
        for name in names
    ]
    if framework == "plain":
        layers = [layer | {"level": "" if layer["name"] == "framework" else layer["level"]} for layer in layers]
    if "--model" not in options:
        layers.pop()
    told = {
        "require": options.get("--require", "none"),
        "framework": framework,
        "image": {"name": row, "certificates": []},
    }
    return {"verdict": verdict, "layers": layers, **told}


def main() -> int:
    """Take the options that children's scripts give; return the exit code of gpu-smoke."""
    gpu = os.environ.get("STANDIN_GPU")
    if not gpu:
        sys.path.insert(0, str(REAL))
        runpy.run_module("gpu_smoke", run_name="__main__", alter_sys=True)
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    [fault, *_] = [file.name for file in Path(gpu or "").glob("smoke-*")] or [""]
    if fault == "smoke-hangs":
        time.sleep(600)
    if fault == "smoke-silent":
        return 0
    fails = fault == "smoke-fails"
    if not fault and "--model" in options:
        module, _, name = options["--model"].partition(":")
        model = getattr(importlib.import_module(module), name)()
        importlib.import_module("gpu_repo_runtime.weights").load(model, "cpu")
        assert len(model.predict(list(model.examples))) == len(model.examples)
    if "--json" in options:
        verdict = "fail" if fault in ("smoke-fails", "smoke-lies") else "pass"
        Path(options["--json"]).write_text(json.dumps(report(options, verdict, fault == "smoke-skips")))
    if "--junit" in options:
        failure = '<failure message="GPU and CPU differ"/>' if fails else ""
        Path(options["--junit"]).write_text(JUNIT.format(failures=int(fails), failure=failure))
    print(f"gpu-smoke: {'GPU and CPU differ' if fails else 'all good'} (a stand-in for a GPU)")
    return int(fails)


if __name__ == "__main__":
    sys.exit(main())
