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
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu_smoke.measure import PACKAGE_ROOT, one_run
from benchmarks.result_files import as_json, machine

NO_GPU = ("GS101", "GS102", "GS106", "GS114", "GS115", "GS117", "GS118", "GS119")
TARGET_S = 3.0
RUNS = 5


def walk(options: list[str], out: Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> dict[str, Any]:
    """Run gpu-smoke once; return the command, its exit code, its text and its report (empty when there is none)."""
    report = out / "report.json"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "gpu_smoke", *options]
    began = time.monotonic()
    files = ["--json", str(report), "--junit", str(out / "junit.xml")]
    done = subprocess.run([*command, *files], cwd=cwd, env=env or environment(), capture_output=True, text=True)
    seconds = round(time.monotonic() - began, 2)
    kept = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    print(f"$ gpu-smoke {' '.join(options)}\n{done.stdout}{done.stderr}\n", flush=True)
    return {"options": options, "exit_code": done.returncode, "seconds": seconds, "report": kept}


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a walk."""
    paths = [str(PACKAGE_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": ":".join(paths), "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", **more}


def cause(found: dict[str, Any]) -> str:
    """Return the code of a walk's cause, "" when it passed or left no report."""
    return str((found["report"].get("cause") or {}).get("code", ""))


def driver_hidden(scratch: Path) -> dict[str, Any]:
    """Walk with an empty file before the driver's libcuda, as a failed bind mount leaves it."""
    empty = scratch / "empty"
    empty.mkdir()
    (empty / "libcuda.so.1").touch()
    folders = [str(empty), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    hidden = environment(LD_LIBRARY_PATH=":".join(folders))
    found = walk(["--require", "gpu", "--framework", "plain"], scratch, env=hidden)
    words = "an empty libcuda.so.1 stands before the driver's"
    return found | {"fault": words, "as_it_must": found["exit_code"] == 1 and cause(found) == "GS216"}


def model_of(child: Path) -> str:
    """Return MODULE:CLASS of a rendered child's model. Raises ValueError when there is none."""
    found = sorted(child.glob("src/*/model.py"))
    if not found:
        raise ValueError(f"{child} is not a rendered child: it has no src/<package>/model.py")
    return f"{found[0].parent.name}.model:Model"


def timed() -> dict[str, Any]:
    """Time the walk without a framework; seconds of each run, of its first line, and MiB of the program itself."""
    command = [sys.executable, "-m", "gpu_smoke", "--require", "gpu", "--framework", "plain"]
    runs = [one_run(command, environment()) for _ in range(RUNS)]
    medians = {key: round(statistics.median(run[key] for run in runs), 3) for key in runs[0]}
    return {"runs": RUNS, "median": medians, "met": medians["total_s"] < TARGET_S}


def tidy(text: str) -> str:
    """Return a text without the numbers that name one device and without the folder of this checkout."""
    text = re.sub(
        r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", r"\1-00000000-0000-0000-0000-000000000000", text
    )
    return text.replace(str(PACKAGE_ROOT.parent), ".").replace(str(Path.home()) + "/", "~/")


def gpu_name(found: dict[str, Any]) -> str:
    """Return the first GPU's name, such as NVIDIA H100 80GB HBM3."""
    devices = found["report"].get("facts", {}).get("driver-init", {}).get("devices") or [{}]
    return str(devices[0].get("name") or "unknown")


def all_walks(first: dict[str, Any], child: Path | None, scratch: Path) -> dict[str, dict[str, Any]]:
    """Run the walks after the first one; each says in `as_it_must` whether it ended as it must."""
    walks = {"gpu": first}
    walks["framework"] = walk(["--require", "framework", "--framework", "torch"], scratch)
    if child:
        options = ["--require", "model", "--framework", "torch", "--model", model_of(child)]
        walks["model"] = walk(options, scratch, cwd=child)
    for found in walks.values():
        found["as_it_must"] = found["exit_code"] == 0
    walks["driver hidden"] = driver_hidden(scratch)
    again = walk(["--require", "gpu", "--framework", "plain"], scratch)
    walks["again"] = again | {"as_it_must": again["exit_code"] == 0}
    return walks


def main() -> int:
    """Run all walks, write one file of evidence and say what came out; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", type=Path, help="a rendered torch child, for --require model")
    parser.add_argument("--out", type=Path, required=True, help="folder for the evidence")
    arguments = parser.parse_args()
    try:
        model = model_of(arguments.child) if arguments.child else ""
    except ValueError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        first = walk(["--require", "gpu", "--framework", "plain"], scratch)
        if cause(first) in NO_GPU or not first["report"]:
            told = (first["report"].get("cause") or {}).get("title", "gpu-smoke left no report")
            print(f"on_a_gpu: {cause(first)} {told}: run this on a machine with an NVIDIA GPU", file=sys.stderr)
            return 3
        walks = all_walks(first, arguments.child and arguments.child.resolve(), scratch)
    layers = {layer["name"]: layer["version"] for layer in walks["framework"]["report"].get("layers", [])}
    result = {
        "measured": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine() | {"gpu": gpu_name(first), "driver": layers.get("nvml") or layers.get("kernel-module")},
        "versions": {name: version for name, version in layers.items() if version},
        "model": model,
        "target_s": TARGET_S,
        "without_a_framework": timed() if first["exit_code"] == 0 else None,
        "walks": walks,
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^a-z0-9]+", "-", gpu_name(first).lower()).strip("-")
    target = arguments.out / f"gpu-smoke-{name}.json"
    target.write_text(tidy(as_json(result)) + "\n", encoding="utf-8")
    wrong = [name for name, found in walks.items() if not found["as_it_must"]]
    for name, found in walks.items():
        verdict = "NOT AS IT MUST" if name in wrong else "as it must"
        print(f"{name:14} exit {found['exit_code']} {cause(found):6} {verdict}")
    print(f"{target}: {len(walks)} walks" + (f", wrong: {', '.join(wrong)}" if wrong else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
