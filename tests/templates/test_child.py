"""What an owner does first really works: the child's own scripts, and each of them says what is missing."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.answers import FRAMEWORKS, TYPES, AnswerSet
from tests.templates.own import own_copy, stand_in
from tests.templates.test_starting_model import SAID

SECONDS = 300


def run(child: Path, *command: str, expect: int = 0, **environment: str) -> str:
    """Run a command in a child as its owner would; fail with its output when the exit code is another."""
    clean = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH", "RUN_IN")}
    path = f"{child.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=child, env=clean | {"PATH": path} | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    told = f"{' '.join(command)} in {child.name} ended with {done.returncode}:\n{done.stdout}"
    assert done.returncode == expect, told
    return done.stdout


# Prints the answers of the model that a child starts with.
ASKED = """
import json, sys
from topic_finder.model import Model
model = Model()
model.load("cpu")
print(json.dumps([one.label for one in model.predict(json.loads(sys.argv[1]))]))
"""
CHILDREN = [(kind, framework) for kind in TYPES for framework in FRAMEWORKS if framework != "plain"]
SLOW = ("service", "torch")


# make demo shows the same of a plain child of each type (test_demo.py)
@pytest.mark.parametrize(
    ("project_type", "framework"),
    [pytest.param(*one, marks=pytest.mark.slow if one == SLOW else pytest.mark.release) for one in CHILDREN],
)
def test_setup_lint_test_and_smoke_of_a_child(render, tmp_path, project_type, framework, torch_build):
    """Of torch a CPU build is installed; of the others pip finds for the CPU what is locked."""
    child = own_copy(render(AnswerSet(project_type, framework)), tmp_path, commit=True)
    run(child, "scripts/setup", *(["--framework", torch_build] if framework == "torch" else []))
    run(child, "scripts/lint")
    assert " passed" in run(child, "scripts/test")
    assert " passed" in run(child, "scripts/smoke")
    if project_type == "service":
        labels = run(child, ".venv/bin/python", "-c", ASKED, json.dumps([*SAID]), PYTHONPATH="src")
        assert json.loads(labels.splitlines()[-1]) == [*SAID.values()]
        text = run(child, "scripts/run", expect=78, DEVICE="cuda")
        assert "no GPU can be used" in text, f"{framework}: DEVICE=cuda without a GPU: {text}"


DOCKER = """
case "$*" in
    "info --format"*) echo "$RUNTIMES" ;;
    info*) ;;
    "image inspect"*) ;;
    run*) echo "docker $*"; mkdir -p build/test-results; echo "<testsuites/>" >build/test-results/unit.xml ;;
    *) echo "docker $*" ;;
esac
"""


@pytest.fixture
def in_docker(render, tmp_path) -> Path:
    """Return a library without .venv, whose Docker prints its options."""
    child = own_copy(render(AnswerSet("library", "plain")), tmp_path, commit=True)
    stand_in(child, "docker", DOCKER)
    return child


@pytest.mark.slow
def test_help_says_what_it_does_and_a_wrong_option_is_refused(in_docker):
    for verb in ("setup", "lint", "test", "build", "smoke", "run", "shell", "lock", "update", "package", "publish"):
        assert f"usage: scripts/{verb}" in run(in_docker, f"scripts/{verb}", "--help"), verb
    for verb in ("setup", "lint", "build", "smoke"):
        assert re.search("unknown|unrecognized", run(in_docker, f"scripts/{verb}", "--wrong", expect=2)), verb


def test_build_says_how_to_get_the_base_image(in_docker):
    stand_in(in_docker, "docker", '[ "$1" = info ] || { echo pull access denied >&2; exit 1; }')
    pulls, denied, refusal = run(in_docker, "scripts/build", expect=3).strip().splitlines()
    assert "pulling registry.example.com/ml/plain-cu13:" in pulls
    assert denied == "pull access denied"
    assert "make images IMAGE=plain-cu13 REGISTRY=registry.example.com/ml" in refusal
    stand_in(in_docker, "docker", "exit 1")
    assert "Docker is not running" in run(in_docker, "scripts/build", expect=3)


@pytest.mark.slow
def test_a_wheel_of_another_version_than_the_tag_is_not_published(in_docker):
    (in_docker / "dist").mkdir()
    (in_docker / "dist/topic_finder-0.1.0-py3-none-any.whl").touch()
    assert "contains version 0.1.0, not v9.9.9" in run(in_docker, "scripts/publish", "v9.9.9", expect=2)


@pytest.mark.slow
def test_docker_gets_the_gpus_of_the_machine(in_docker, tmp_path):
    library, device = in_docker / "scripts" / "lib.sh", tmp_path / "nvidiactl"
    library.write_text(library.read_text().replace("/dev/nvidiactl", str(device)))
    assert "no GPU" in run(in_docker, "scripts/test", RUNTIMES='{"nvidia":{}}')
    device.touch()
    for runtime, expected in (("nvidia", "--gpus all"), ("runc", "cannot hand out")):
        text = run(in_docker, "scripts/test", RUNTIMES=f'{{"{runtime}":{{}}}}')
        assert expected in text, text
        assert ("--gpus all" in text) == (expected == "--gpus all"), text
        assert "topic-finder:dev-test python -m pytest" in text, text


@pytest.mark.slow
def test_neither_venv_nor_docker(in_docker):
    stand_in(in_docker, "docker", "exit 1")
    text = run(in_docker, "scripts/test", expect=3)
    assert text.strip() == "test: there is neither .venv nor Docker here: run scripts/setup first"
