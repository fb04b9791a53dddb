"""Try what is deployed: the service answers real requests and stops, the job runs on the model's examples."""

from __future__ import annotations

import os

from .cluster import gpu_pod
from .facts import PROOF, Project, ScriptError, make_build, pushed
from .places import run

# What runs in the image; $0 is the module with its package.
JOB = """
folder=$(mktemp -d)
python -c "$1" "$folder/examples.jsonl" \\
    && python -m $0 run --input "$folder/examples.jsonl" --output "$folder/result" --device "$2" \\
    && test -f "$folder/result/_SUCCESS"
"""
EXAMPLES = """
import json, sys
from pydantic_core import to_jsonable_python
from {package}.model import Model
rows = [one if isinstance(one, dict) else {{"text": one}} for one in map(to_jsonable_python, Model.examples)]
open(sys.argv[1], "w").writelines(json.dumps(row) + "\\n" for row in rows)
"""


def probe(project: Project, words: list[str]) -> int:
    """Try the project; of the image that was pushed, leave a proof. A service is tried in its image unless told."""
    project.no_options(words)
    make_build(PROOF / "probe")
    is_service = project.kind == "service"
    where = os.environ.setdefault("RUN_IN", "docker") if is_service else os.environ.get("RUN_IN")
    device = os.environ.get("DEVICE") or ("cuda" if where == "cluster" else "auto")
    command = ["sh", "-c", JOB, project.module, EXAMPLES.format(package=project.package), device]
    if is_service:
        command = ["python", "-m", "gpu_repo_runtime.serving.probe", *project.module.split()]
    if where == "cluster":
        with gpu_pod(project) as pod:
            code = pod.run(*command).returncode
    else:
        code = run(project, "runtime", *command)
    if code:
        raise ScriptError(1, f"the {project.kind} did not pass; its output is above")
    if where in ("pushed", "cluster"):
        PROOF.mkdir(parents=True, exist_ok=True)
        (PROOF / "probe").write_text("".join(f"{line}\n" for line in pushed()), encoding="utf-8")
    project.say("started, answered and stopped" if is_service else "the job read, predicted and wrote")
    return 0
