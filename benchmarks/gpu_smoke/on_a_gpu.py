"""Walk the whole stack on a machine with a GPU and keep the reports as evidence: docs/evidence/gpu-smoke-<GPU>.json.

    make new TO=build/gpu-child ANSWERS="project_name=gpu-check project_type=service framework=torch"
    python3 -m benchmarks.gpu_smoke.on_a_gpu --child build/gpu-child --out docs/evidence

Five walks: without a framework (timed), up to the framework, up to the child's model, with an empty file before the
driver, which must be named as the fault, and again without a fault. It needs Python 3.11 or newer with torch, and
nothing else. Nothing of the machine is changed: the driver is hidden by the environment of the one process.

Exit codes: 0 every walk ended as it must, 1 one did not (the reports are kept), 2 wrong use, 3 there is no GPU here.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.gpu_smoke.measure import one_run
from benchmarks.harness import as_json, machine, medians

GPU = ["--require", "gpu", "--framework", "plain"]
TARGET_S, RUNS = 3.0, 5
DEVICE = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a walk."""
    paths = [str(ROOT / "base-images"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": ":".join(paths), "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", **more}


def walk(options: list[str], out: Path, code: int = 0, cause: str = "", **more: Any) -> dict[str, Any]:
    """Run gpu-smoke once; return its options, exit code and report, and whether it ended with a code and a cause.

    more: further options of subprocess.run.
    """
    report = out / "report.json"
    report.unlink(missing_ok=True)
    files = ["--json", str(report), "--junit", str(out / "junit.xml")]
    command, began = [sys.executable, "-m", "gpu_smoke", *options, *files], time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, **({"env": environment()} | more))
    seconds = round(time.monotonic() - began, 2)
    kept = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    print(f"$ gpu-smoke {' '.join(options)}\n{done.stdout}{done.stderr}\n", flush=True)
    found = {"options": options, "exit_code": done.returncode, "seconds": seconds, "report": kept}
    return found | {"as_it_must": done.returncode == code and (not cause or cause_of(found) == cause)}


def cause_of(found: dict[str, Any]) -> str:
    """Return the code of a walk's cause, "" when it passed or left no report."""
    return str((found["report"].get("cause") or {}).get("code", ""))


def driver_hidden(scratch: Path) -> dict[str, Any]:
    """Walk with an empty file before the driver's libcuda, as a failed bind mount leaves it."""
    (scratch / "libcuda.so.1").touch()
    folders = [str(scratch), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    found = walk(GPU, scratch, 1, "GS216", env=environment(LD_LIBRARY_PATH=":".join(folders)))
    return found | {"fault": "an empty libcuda.so.1 stands before the driver's"}


def timed() -> dict[str, Any]:
    """Time the walk without a framework; seconds of each run, of its first line, and MiB of the program itself."""
    found = medians([one_run([sys.executable, "-m", "gpu_smoke", *GPU], environment()) for _ in range(RUNS)])
    return {"runs": RUNS, "median": {key: round(value, 3) for key, value in found.items()}}


def tidy(text: str) -> str:
    """Return a text without the numbers that name one device and without the folder of this checkout."""
    text = DEVICE.sub(r"\1-00000000-0000-0000-0000-000000000000", text)
    return text.replace(str(ROOT), ".").replace(str(Path.home()) + "/", "~/")


def main() -> int:
    """Run all walks, write one file of evidence and say what came out; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", type=Path, help="a rendered torch child, for --require model")
    parser.add_argument("--out", type=Path, required=True, help="folder for the evidence")
    arguments = parser.parse_args()
    models = sorted(arguments.child.glob("src/*/model.py")) if arguments.child else []
    if arguments.child and not models:
        parser.error(f"{arguments.child} is not a rendered child: it has no src/<package>/model.py")
    model = f"{models[0].parent.name}.model:Model" if models else ""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        first = walk(GPU, scratch)
        devices = first["report"].get("facts", {}).get("driver-init", {}).get("devices")
        if not devices:
            title = (first["report"].get("cause") or {}).get("title", "no device in the report")
            print(f"on_a_gpu: {title}: run this on a machine where gpu-smoke finds an NVIDIA GPU", file=sys.stderr)
            return 3
        walks = {"gpu": first, "framework": walk(["--require", "framework", "--framework", "torch"], scratch)}
        if model:
            options = ["--require", "model", "--framework", "torch", "--model", model]
            walks["model"] = walk(options, scratch, cwd=arguments.child.resolve())
        walks |= {"driver hidden": driver_hidden(scratch), "again": walk(GPU, scratch)}
    layers = {layer["name"]: layer["version"] for layer in walks["framework"]["report"].get("layers", [])}
    gpu = str(devices[0].get("name") or "unknown")
    result = {
        "measured": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(gpu=gpu, driver=layers.get("nvml") or layers.get("kernel-module")),
        "versions": {name: version for name, version in layers.items() if version},
        "model": model,
        "target_s": TARGET_S,
        "without_a_framework": timed() if first["exit_code"] == 0 else None,
        "walks": walks,
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    target = arguments.out / f"gpu-smoke-{re.sub(r'[^a-z0-9]+', '-', gpu.lower()).strip('-')}.json"
    target.write_text(tidy(as_json(result)), encoding="utf-8")
    for name, found in walks.items():
        verdict = "as it must" if found["as_it_must"] else "NOT AS IT MUST"
        print(f"{name:14} exit {found['exit_code']} {cause_of(found):6} {verdict}")
    print(f"{target}: {len(walks)} walks")
    return 0 if all(found["as_it_must"] for found in walks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
