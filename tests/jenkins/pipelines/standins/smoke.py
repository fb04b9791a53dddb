"""Stands in for gpu-smoke inside a container: the real one where there is no GPU, else the model on the CPU.

`smoke-fails` and `smoke-hangs` beside the engine's `nvidiactl` make the GPU one that computes nonsense or not at all.
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
REPORT = """<?xml version="1.0"?>
<testsuite name="gpu-smoke" tests="2" failures="{failures}"><testcase name="driver"/><testcase name="model">
{failure}</testcase></testsuite>
"""


def main() -> int:
    """Take the options that children's scripts give; return the exit code of gpu-smoke."""
    gpu = os.environ.get("STANDIN_GPU")
    if not gpu:
        sys.path.insert(0, str(REAL))
        runpy.run_module("gpu_smoke", run_name="__main__", alter_sys=True)
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    if (Path(gpu or "") / "smoke-hangs").exists():
        time.sleep(600)
    fails = (Path(gpu or "") / "smoke-fails").exists()
    if not fails and "--model" in options:
        module, _, name = options["--model"].partition(":")
        model = getattr(importlib.import_module(module), name)()
        model.load("cpu")
        assert len(model.predict(list(model.examples))) == len(model.examples)
    failure = '<failure message="GPU and CPU differ"/>' if fails else ""
    if "--json" in options:
        verdict = {"verdict": "fail" if fails else "pass", "layers": []}
        Path(options["--json"]).write_text(json.dumps(verdict))
    if "--junit" in options:
        Path(options["--junit"]).write_text(REPORT.format(failures=int(fails), failure=failure))
    print(f"gpu-smoke: {'GPU and CPU differ' if fails else 'all good'} (a stand-in for a GPU)")
    return int(fails)


if __name__ == "__main__":
    sys.exit(main())
