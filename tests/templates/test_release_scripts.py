"""What the scripts before a release believe: no file beside the commit, no missing report, no other commit's image."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.conftest import ROOT, git

DIGEST = f"sha256:{'a' * 64}"
STAGING = "registry.example.com/ml-staging/topic-finder"
OBJECTS = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  namespace: {space}
spec:
  template:
    metadata:
      name: not-this-one
    spec:
      containers:
      - image: {image}
      - args: ["--image={image}:v1", "{image}"]
"""


@pytest.fixture(scope="module")
def committed(render: Callable[[AnswerSet], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a committed service with Kubernetes files."""
    folder = tmp_path_factory.mktemp("release") / "child"
    shutil.copytree(render(AnswerSet("service", "plain", kubernetes=True)), folder)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=O", "-c", "user.email=o@example.com", "commit", "--quiet", "--message=Start")
    return folder


@pytest.fixture
def child(committed: Path, tmp_path: Path) -> Path:
    """Return a copy of the child."""
    shutil.copytree(committed, tmp_path / "child")
    (tmp_path / "bin").mkdir()
    return tmp_path / "child"


def stand_in(child: Path, name: str, text: str) -> None:
    """Let a program be this script."""
    program = child.parent / "bin" / name
    program.write_text(f"#!/usr/bin/env bash\n{text}\n")
    program.chmod(0o755)


def run(child: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the child, with the programs that stand in first on PATH."""
    path = f"{child.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(child.parent), **variables}
    return subprocess.run(
        ["bash", "-c", script], cwd=child, env=environment, capture_output=True, text=True, check=False
    )


def commit_of(child: Path) -> str:
    """Return the commit as the scripts say it."""
    return run(child, "source scripts/lib.sh; commit").stdout.strip()


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("src/topic_finder/forgotten.py", True), ("requirements-more.lock", True), ("wheels/more.whl", True),
        ("notes.txt", False), ("gha-creds-1.json", False), ("src/topic_finder/__pycache__/a.pyc", False),
    ],
)  # fmt: skip
def test_a_new_file_that_the_image_takes_is_not_the_commit(child: Path, name: str, counts: bool) -> None:
    head = git(child, "rev-parse", "HEAD").strip()
    assert commit_of(child) == head
    (child / name).parent.mkdir(parents=True, exist_ok=True)
    (child / name).write_text("x = 1\n")
    assert commit_of(child) == (f"{head}-dirty" if counts else head), name
    (child / "pyproject.toml").write_text("")
    assert commit_of(child) == f"{head}-dirty", "it is said once"


def test_a_test_run_without_a_report_fails_and_an_old_report_is_not_taken(child: Path) -> None:
    stand_in(child, "docker", "exit 0 # as a test that ends pytest with os._exit(0)")
    report = child / "build" / "test-results" / "unit.xml"
    report.parent.mkdir(parents=True)
    report.write_text("<testsuites/>")
    done = run(child, "scripts/test", RUN_IN="docker")
    assert done.returncode == 1, done.stderr
    assert "pytest ended before it wrote its report" in done.stderr
    assert not (child / "build" / "proof" / "test").exists(), "a report of an earlier run proved this commit"


def test_a_smoke_test_that_says_nothing_fails(child: Path) -> None:
    stand_in(child, "docker", "exit 0")
    done = run(child, "scripts/smoke --require model", RUN_IN="docker")
    assert done.returncode == 1, done.stderr
    assert "gpu-smoke ended without a report" in done.stderr
    done = run(child, "scripts/smoke --require model", RUN_IN="pushed")
    assert done.returncode == 2, done.stderr
    assert "build/image.txt is not here" in done.stderr


def pushed(child: Path, image: str, commit: str) -> None:
    """Write what scripts/push leaves."""
    (child / "build").mkdir(exist_ok=True)
    (child / "build" / "image.txt").write_text(f"{image}\n{commit}\n2026-01-01T00:00:00.0Z\n")


@pytest.mark.parametrize(
    ("image", "commit", "said"),
    [
        (f"evil.example.com/x@{DIGEST}", None, "not an image of"),
        (f"{STAGING}@sha256:abc", None, "not an image of"),
        (f"{STAGING}@{DIGEST}", "0" * 40, "the image was pushed from 000"),
    ],
)
def test_only_the_image_of_this_commit_is_deployed(child: Path, image: str, commit: str | None, said: str) -> None:
    stand_in(child, "kubectl", 'echo "$@" >>../kubectl.log')
    pushed(child, image, commit or commit_of(child))
    done = run(child, "scripts/deploy prod", STAGING="registry.example.com/ml-staging")
    assert done.returncode in (1, 2), done.stderr
    assert said in done.stderr
    assert not (child.parent / "kubectl.log").exists(), "the cluster was asked"


def test_every_mention_is_the_released_digest_and_each_deployment_is_waited_for(child: Path) -> None:
    repository = "registry.example.com/ml/topic-finder"
    objects = "---\n".join(
        OBJECTS.format(name=name, space=space, image=repository) for name, space in (("a-one", "x"), ("two", "y"))
    )
    (child.parent / "objects").write_text(objects + "---\nkind: Service\nmetadata:\n  name: other\n")
    stand_in(child, "kubectl", 'echo "$*" >>../kubectl.log; [[ $1 != kustomize ]] || cat ../objects')
    pushed(child, f"{STAGING}@{DIGEST}", commit_of(child))
    done = run(child, "scripts/deploy prod", STAGING="registry.example.com/ml-staging", IMAGE=f"{repository}:dev")
    assert done.returncode == 0, done.stderr
    applied = (child / "build" / "deploy.yaml").read_text()
    assert applied.count(f"{repository}@{DIGEST}") == 4, applied
    asked = (child.parent / "kubectl.log").read_text()
    waited = [line.split(" --timeout")[0] for line in asked.splitlines() if line.startswith("rollout")]
    assert waited == ["rollout status deployment/a-one --namespace x", "rollout status deployment/two --namespace y"]


@pytest.mark.parametrize("place", ["child", "parent"])
def test_a_user_without_a_password_is_refused_before_anything_is_pushed(child: Path, place: str) -> None:
    stand_in(child, "docker", 'echo "$@" >>../docker.log')
    script = "scripts/push" if place == "child" else f"{ROOT}/base-images/with-login true"
    done = run(child, script, REGISTRY_USER="robot", REGISTRY_PASSWORD="", REGISTRY="registry.example.com/ml")
    assert done.returncode in (1, 2), done.stderr
    assert "the secret" in done.stderr, done.stderr
    log = child.parent / "docker.log"
    assert not log.exists() or "push" not in log.read_text()


def test_a_password_of_a_command_reaches_the_registry_of_the_parent(child: Path) -> None:
    stand_in(child, "docker", "cat >../password")
    variables = {
        "REGISTRY_USER": "robot",
        "REGISTRY_PASSWORD_COMMAND": "echo token",
        "REGISTRY": "registry.example.com/ml",
    }
    done = run(child, f"{ROOT}/base-images/with-login true", **variables)
    assert done.returncode == 0, done.stderr
    assert (child.parent / "password").read_text() == "token\n"
    failing = run(child, f"{ROOT}/base-images/with-login true", **variables | {"REGISTRY_PASSWORD_COMMAND": "false"})
    assert failing.returncode == 1, failing.stderr
    assert "gave no password" in failing.stderr


def test_a_key_that_is_a_text_becomes_a_file_that_ends_with_the_step(child: Path) -> None:
    """GitHub has no secret files: `make push` and `make promote` read the path in SIGN."""
    stand_in(child, "docker", "cat >/dev/null")
    told = 'echo "$SIGN"; cat "$SIGN"; stat -c %a "${SIGN%/*}"; echo "text: ${SIGNING_KEY:-gone}"'
    login = {"REGISTRY_USER": "robot", "REGISTRY_PASSWORD": "word", "REGISTRY": "registry.example.com/ml"}
    done = run(child, f"{ROOT}/base-images/with-login bash -c '{told}'", **login, SIGNING_KEY="-----BEGIN\nkey")
    assert done.returncode == 0, done.stderr
    path, *lines = done.stdout.splitlines()
    assert lines == ["-----BEGIN", "key", "700", "text: gone"]
    assert not Path(path).exists()
    unsigned = run(child, f"{ROOT}/base-images/with-login bash -c 'echo ${{SIGN:-none}}'", **login, SIGNING_KEY="")
    assert unsigned.stdout == "none\n"
