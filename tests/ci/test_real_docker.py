"""A child's pipeline in real Docker: its image is built, pushed and pulled by digest, and rejected without a GPU.

Real besides what farm.py lists: Docker Engine, the base image (`make images`) and gpu-smoke in the image. That the same
pipeline passes on a GPU agent is not yet run on a GPU.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ci import farm
from tests.ci.children import Builds
from tests.ci.runs import Run

ROW = os.environ.get("IMAGE") or "plain-cu13"  # as `make test-images IMAGE=name` chooses
BASE = f"registry.example.com/ml/{ROW}"


def docker(*command: str) -> list[str]:
    """Return the words that docker prints."""
    done = subprocess.run(["docker", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"docker {' '.join(command)}: {done.stderr[-1000:]}"
    return done.stdout.split()


@pytest.mark.images
@pytest.mark.row(ROW)
@pytest.mark.parametrize("system", ["jenkins"])
def test_without_a_gpu_the_image_stays_in_staging(
    builds: Callable[..., Builds], run: Callable[..., Run], tmp_path: Path
) -> None:
    """Lint, tests and image pass in their containers; the smoke test fails on the digest, and nothing is promoted."""
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a GPU; the test is about an agent that lost its own")
    names = docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", BASE)
    assert names, f"no image {BASE} here: make images IMAGE={ROW}"
    it = builds("service", framework=ROW.split("-")[0], gpu_driver="580" if ROW.endswith("cu13") else "525")
    login = tmp_path / "docker"  # the agent's own login, with which it pulls
    own = Path(os.environ.get("DOCKER_CONFIG", Path.home() / ".docker"))
    shutil.copytree(own, login) if own.exists() else login.mkdir()
    command = ["docker", "--config", str(login), "login", "--username=agent", "--password-stdin", it.registry.host]
    subprocess.run(command, input=b"agent-password", check=True, stdout=subprocess.DEVNULL)
    for home in it.agents.labels.values():
        (home / "docker").unlink(missing_ok=True)
    try:
        told = it.run(run, "main", variables={"BASE_IMAGE": names[0], "DOCKER_CONFIG": str(login)})
    finally:
        made = docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", f"*/*/{it.child.name}")
        subprocess.run(["docker", "image", "rm", "--force", *made], check=False, capture_output=True)
    assert (told.passed, told.failed) == ({"check", "build"}, {"smoke"}), told.log
    assert farm.STAGING_LOGIN[1] not in told.log
    it.nothing_is_out()
    [tag] = it.staged()
    assert tag.startswith("ci-main.")
