"""My batch job runs every night, with and without a GPU: docs/how-to/run-a-batch-job-every-night.md. In order."""

from __future__ import annotations

import subprocess
from typing import Any

import yaml

from tests.journeys.child import Child

TYPE = "batch"
PAGE = "how-to/run-a-batch-job-every-night.md"


def pod(rendered: str) -> dict[str, Any]:
    """Return the pod of the CronJob."""
    [job] = [one["spec"]["jobTemplate"] for one in yaml.safe_load_all(rendered) if one["kind"] == "CronJob"]
    return job["spec"]["template"]["spec"]  # type: ignore[no-any-return]


def test_each_night_reads_and_writes_the_folder_of_its_day(child: Child) -> None:
    [container] = pod(child.follow("1. On Kubernetes"))["containers"]
    shell, option, script = container["args"]
    script = script.replace("$$", "$").replace("${JOB_NAME##*-}", "29930580").replace("exec python", "echo")
    said = subprocess.run([shell, option, script], capture_output=True, text=True, check=True).stdout
    assert "--input=/data/input/2026-11-28 --output=/data/output/2026-11-28" in said, said


def test_without_a_gpu_no_pod_requests_one(child: Child) -> None:
    made = pod(rendered := child.follow("2. Without a GPU"))
    assert ("nvidia.com/gpu" in str(made), "kueue" in rendered) == (False, False)
    assert made["containers"][0]["resources"]["limits"].items() >= {"cpu": "2", "memory": "4Gi"}.items()
