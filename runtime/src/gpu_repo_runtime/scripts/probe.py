"""Try what is deployed: the service answers real requests and stops, the job runs on the model's examples."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .cluster import gpu_pod
from .facts import PROOF, Project, ScriptError, make_build, printed, pushed
from .places import docker_answers, ensure_image, gpu_options, mounted_weights, pull_pushed, run

EXAMPLES = """
import json, sys
from pydantic_core import to_jsonable_python
from {package}.model import Model
rows = [one if isinstance(one, dict) else {{"text": one}} for one in map(to_jsonable_python, Model.examples)]
open(sys.argv[1], "w").writelines(json.dumps(row) + "\\n" for row in rows)
"""
# What runs in the pod: $0 is the module with its package. The service has to end with 0 when it is told to stop.
SERVICE = """
export API_KEY="${API_KEY:-any}"
python -m $0 & service=$!
python -m gpu_repo_runtime.serving.probe; code=$?
kill -TERM "$service"; wait "$service" && exit "$code"
"""
JOB = """
python -c "$1" /tmp/examples.jsonl && python -m $0 run --input /tmp/examples.jsonl --output /tmp/result --device cuda \\
    && test -f /tmp/result/_SUCCESS
"""


def probe(project: Project, words: list[str]) -> int:
    """Try the image of the project; of the one that was pushed, leave a proof."""
    project.no_options(words)
    make_build(PROOF / "probe")
    where = os.environ.get("RUN_IN")
    here = probe_service if project.kind == "service" else probe_job
    (probe_on_cluster if where == "cluster" else here)(project)
    if where in ("pushed", "cluster"):
        PROOF.mkdir(parents=True, exist_ok=True)
        (PROOF / "probe").write_text("".join(f"{line}\n" for line in pushed()), encoding="utf-8")
    project.say("started, answered and stopped" if project.kind == "service" else "the job read, predicted and wrote")
    return 0


def probe_service(project: Project) -> None:
    """Start the image as a container, wait until it is ready, send requests, stop it. Raises ScriptError."""
    if not docker_answers():
        raise ScriptError(3, "Docker is not running: scripts/bench starts the service without")
    if os.environ.get("RUN_IN") == "pushed":
        reference = pull_pushed()
    else:
        ensure_image(project, "runtime")
        reference = project.image
    weights = mounted_weights() if os.environ.get("WEIGHTS_IN") == "volume" else []
    gpus = gpu_options(project)
    project.say(f"starting {reference}, {' '.join(gpus) or 'no GPU'}")
    passed = [word for name in ("DEVICE", *project.settings) for word in ("--env", name)]
    key = ["--env", f"API_KEY={os.environ.get('API_KEY') or 'any'}"]
    options = ["--detach", "--ipc=host", *gpus, *weights, "--env", "HOME=/tmp", *key, *passed]
    container = printed("docker", "run", *options, reference)
    try:
        # Asked from inside: no port of this machine is taken, and two executors on one node do not meet.
        asked = ["python", "-m", "gpu_repo_runtime.serving.probe"]
        done = ["docker", "exec", "--env", "READY_SECONDS", "--env", "P95_MS", container, *asked]
        failed = subprocess.run(done, check=False).returncode
        printed("docker", "stop", "--time", "60", container)
        code = printed("docker", "inspect", "--format", "{{.State.ExitCode}}", container)
        if failed:
            subprocess.run(["docker", "logs", container], check=False)
            raise ScriptError(1, "the service did not pass; its log is above")
        if code != "0":
            raise ScriptError(1, f"the service answered, and ended with {code} instead of 0 after SIGTERM")
    finally:
        printed("docker", "rm", "--force", container)


def probe_on_cluster(project: Project) -> None:
    """Do the same in a pod on a GPU. Raises ScriptError."""
    examples = EXAMPLES.format(package=project.package)
    script = SERVICE if project.kind == "service" else JOB
    with gpu_pod(project) as pod:
        if pod.run("sh", "-c", script, project.module, examples).returncode:
            raise ScriptError(1, f"the {project.kind} did not pass on the cluster; its output is above")


def probe_job(project: Project) -> None:
    """Run the batch job on the model's examples. Raises ScriptError."""
    folder = Path("build/probe")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    examples, result = str(folder / "examples.jsonl"), folder / "result"
    if run(project, "runtime", "python", "-c", EXAMPLES.format(package=project.package), examples):
        raise ScriptError(1, "Model.examples cannot be written as rows; the reason is above")
    job = ["python", "-m", *project.module.split(), "run", "--input", examples, "--output", str(result)]
    if run(project, "runtime", *job, "--device", os.environ.get("DEVICE") or "auto"):
        raise ScriptError(1, "the job failed on the model's examples; the reason is above")
    if not (result / "_SUCCESS").is_file():
        raise ScriptError(1, f"the job ended well, and {result} contains no _SUCCESS")
