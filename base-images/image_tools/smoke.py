"""Run the smoke test of a pushed digest, keep its whole report, and read the verdict before anything is released."""

import argparse
import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpu_repo_runtime.verdict import smoke_problems

from .build import check_engine
from .catalog import BUILD, ImageError, find_row
from .push import told_or_pushed
from .record import Pushed

ON_A_GPU = ("gpu", "framework", "model")


def demanded(row: dict[str, Any]) -> str:
    """Return how far up the GPU of a row has to work before it is released."""
    return "gpu" if row["framework"] == "plain" else "framework"


def pull(reference: str) -> None:
    """Bring a pushed image into the local engine. Raises ImageError."""
    if subprocess.run(["docker", "pull", "--quiet", reference], stdout=subprocess.DEVNULL, check=False).returncode:
        raise ImageError(f"{reference}: cannot pull it; Docker's reason is above")


def which_gpus() -> str:
    """Return Docker's word for the GPUs of this test: those that GPUS numbers (0 or 0,1), else all."""
    told = os.environ.get("GPUS", "")
    return f'"device={told}"' if told else "all"


def smoke_digest(pushed: Pushed, require: str, junit: Path | None = None) -> dict[str, Any]:
    """Run the smoke test of a pushed image; return its record, for `check_record`. Raises ImageError when it fails.

    junit: where its report goes, also when it fails.
    """
    pull(pushed.image)
    mode = ["--mode", "image"] if require == "none" else ["--require", require]
    gpus = [] if require == "none" else ["--gpus", which_gpus()]
    command = ["docker", "run", "--rm", *gpus, pushed.image]
    script = f"/usr/local/bin/gpu-smoke {' '.join(mode)} --json /tmp/smoke.json --junit /tmp/smoke.xml; code=$?; "
    script += "cat /tmp/smoke.json /tmp/smoke.xml >&2; exit $code"
    result = subprocess.run([*command, "sh", "-c", script], capture_output=True, text=True, check=False)
    if junit:
        junit.parent.mkdir(parents=True, exist_ok=True)
        junit.write_text(result.stderr[max(result.stderr.find("<?xml"), 0) :])
    if result.returncode:
        print(result.stdout)
        raise ImageError(
            f"{pushed.image}: the smoke test ended with {result.returncode}; no tag was set. See the report above; "
            f"run it again with: {' '.join([*command, 'gpu-smoke', *mode])}"
        )
    return asdict(pushed) | {"report": first_json(result.stderr)}


def first_json(text: str) -> Any:
    """Return the first JSON object of a text, None when there is none."""
    start = text.find("{")
    try:
        return json.JSONDecoder().raw_decode(text, start)[0] if start >= 0 else None
    except ValueError:
        return None


def check_record(record: Any, row: dict[str, Any], pushed: Pushed, require: str) -> dict[str, Any]:
    """Return what the release record keeps of a smoke test; raise ImageError when it does not allow a release."""
    if problems := smoke_problems(record, pushed.commit, require, pushed.image, pushed.pushed):
        raise ImageError(f"{row['name']}@{pushed.digest}: no tag was set: {'; '.join(problems)}")
    report = record["report"]
    layers = {layer["name"]: layer["state"] for layer in report["layers"]}
    # A test without a GPU proves that the libraries load, and nothing about a GPU.
    proof = {"require": report["require"], "verdict": report["verdict"], "on_a_gpu": report["require"] in ON_A_GPU}
    return proof | {"layers": layers}


def told_record(file: Path) -> Any:
    """Return the record of a smoke test that another machine made. Raises ImageError."""
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ImageError(f"{file}: cannot read the smoke report: {error}; make one with `make smoke-digest`") from error


def smoke_row(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Smoke the pushed digest of a row on this machine's GPU and keep the report for `make promote SMOKE=file`."""
    row = find_row(catalog, arguments.image)
    check_engine()
    pushed, require = told_or_pushed(arguments), arguments.require or demanded(row)
    file = BUILD / "smoke" / f"{row['name']}.json"
    file.unlink(missing_ok=True)
    record = smoke_digest(pushed, require, file.with_suffix(".xml"))
    file.write_text(json.dumps(record) + "\n")
    check_record(record, row, pushed, require)
    print(f"{pushed.image}: passed as far as {require}; recorded in {file}")
