"""A child's pipeline in real Docker: its image is built, pushed and pulled by digest, and refused without a GPU.

Real besides what farm.py lists: Docker Engine, the base image (`make images`) and gpu-smoke in the
image. That the same pipeline passes on a GPU agent is not yet run on a GPU.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.conftest import git
from tests.jenkins.pipelines import farm
from tests.jenkins.runner import run_pipeline

ROW = os.environ.get("IMAGE") or "plain-cu13"  # as `make test-images IMAGE=name` chooses
pytestmark = [pytest.mark.images, pytest.mark.row(ROW)]
BASE = f"registry.example.com/ml/{ROW}"


def _docker(*command: str) -> str:
    done = subprocess.run(["docker", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"docker {' '.join(command)}: {done.stderr[-1000:]}"
    return done.stdout


def test_without_a_gpu_the_image_stays_in_staging(
    copie_session,
    template: Path,
    registry: farm.Registry,
    tmp_path: Path,  # type: ignore[no-untyped-def]
) -> None:
    """Lint, tests and image pass in their containers; the smoke test fails on the digest, and nothing is promoted."""
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a GPU; the test is about an agent that lost its own")
    [base, *_] = _docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", BASE).split() or [""]
    assert base, f"no image {BASE} here: make images IMAGE={ROW}"
    answers = AnswerSet(
        "service", ROW.split("-")[0], "580" if ROW.endswith("cu13") else "525", project_name="pipeline-check"
    ).as_dict()
    told = answers | {"registry": f"{registry.host}/ml"}
    result = copie_session.copy(extra_answers=told, template_dir=template)
    assert result.exit_code == 0, repr(result.exception)
    child = tmp_path / "child"
    shutil.copytree(result.project_dir, child)
    git(child, "init", "--quiet", "--initial-branch=main")
    git(child, "add", "--all")
    git(child, "commit", "--quiet", "--message=Start from the template")
    login = tmp_path / "docker"  # the agent's own login, with which it pulls
    own = Path(os.environ.get("DOCKER_CONFIG", Path.home() / ".docker"))
    shutil.copytree(own, login) if own.exists() else login.mkdir()
    command = ["docker", "--config", str(login), "login", "--username", "agent", "--password-stdin", registry.host]
    subprocess.run(command, input=b"agent-password", check=True, stdout=subprocess.DEVNULL)
    try:
        trace = run_pipeline(
            child / "Jenkinsfile",
            child,
            branch="main",
            labels=("docker", "gpu", "kubectl"),
            credentials={"registry-staging": farm.STAGING_LOGIN, "registry-release": farm.RELEASE_LOGIN},
            env={"BASE_IMAGE": base, "DOCKER_CONFIG": str(login)},
            workdir=tmp_path / "work",
        )
    finally:
        for line in _docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "*/*/pipeline-check").split():
            subprocess.run(["docker", "image", "rm", "--force", line], check=False, capture_output=True)
    assert trace.result == "FAILURE", trace.log
    passed = {stage.name for stage in trace.all_stages if stage.result == "SUCCESS"}
    assert {"Lint", "Test", "Build and push"} <= passed, trace.log
    assert trace.stage("GPU smoke test").result == "FAILURE"
    assert trace.stage("GPU smoke test").reports[0].failed >= 1, "no JUnit report of the failed smoke test"
    assert registry.tags("ml/pipeline-check") == {}, "released"
    [tag] = registry.tags("ml-staging/pipeline-check")
    assert tag.startswith("ci-main.")
    assert farm.STAGING_LOGIN[1] not in trace.log
