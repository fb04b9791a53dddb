"""A GPU of a cluster for the checks of a release: a Job with the image that was pushed, and commands in its pod."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .deploy import kubeconfig, rendered
from .facts import Project, ScriptError, printed, pushed

FOLDER = "deploy/base/gpu-check"
# Settings come through standard input: words of a command are in the log of the cluster.
WITH_SETTINGS = 'while IFS= read -r line; do export "$line"; done; exec "$@"'


@dataclass(frozen=True)
class Pod:
    """The pod of the Job `name`; commands in it get the variables `settings`."""

    name: str
    settings: tuple[str, ...]

    def run(self, *command: str, stdout: int | None = None) -> subprocess.CompletedProcess[bytes]:
        """Run a command in the image."""
        lines = "".join(f"{name}={os.environ[name]}\n" for name in self.settings if name in os.environ)
        words = ["kubectl", "exec", "--stdin", *namespace(), f"job/{self.name}", "--", "sh", "-c", WITH_SETTINGS, "sh"]
        return subprocess.run([*words, *command], input=os.fsencode(lines), stdout=stdout, check=False)

    def fetch(self, source: str, target: Path) -> None:
        """Write what a file of the pod contains to a file here, nothing where it does not exist."""
        done = self.run("cat", source, stdout=subprocess.PIPE)
        if done.returncode == 0:
            target.write_bytes(done.stdout)


def namespace() -> list[str]:
    """Return the options for GPU_CHECK_NAMESPACE; without it, the namespace of the kubeconfig."""
    return ["--namespace", name] if (name := os.environ.get("GPU_CHECK_NAMESPACE")) else []


@contextmanager
def gpu_pod(project: Project) -> Iterator[Pod]:
    """Start the Job with the pushed image, yield its pod when it runs, delete it. Raises ScriptError."""
    if not Path(FOLDER).is_dir():
        raise ScriptError(2, f"RUN_IN=cluster needs {FOLDER}: answer kubernetes=true")
    image, _, _ = pushed()
    with kubeconfig():
        [job] = rendered(project, FOLDER, image, f"scripts.smoke/image={image}")
        job["metadata"]["name"] += f"-{secrets.token_hex(4)}"
        name = job["metadata"]["name"]
        printed("kubectl", "create", "--filename", "-", *namespace(), given=json.dumps(job))
        try:
            project.say(f"waiting for a GPU of the cluster: job {name}")
            ready = ["wait", "--for=jsonpath={.status.ready}=1", f"job/{name}", "--timeout", "15m"]
            printed("kubectl", *ready, *namespace())
            yield Pod(name, project.settings)
        finally:
            printed("kubectl", "delete", "job", name, "--wait=false", "--ignore-not-found", *namespace())
