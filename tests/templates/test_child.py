"""What an owner does first really works: the child's own scripts, and each of them says what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.answers import FRAMEWORKS, TYPES, AnswerSet
from tests.conftest import git
from tests.sampling import every, sampled
from tests.templates.own import own_copy, stand_in
from tests.templates.typed import type_errors

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


@pytest.mark.release  # make demo shows the same of a plain child of each type and of a torch service (test_demo.py)
@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name != "plain"])
@pytest.mark.parametrize("project_type", TYPES)
def test_setup_lint_test_and_smoke_of_a_child(render, tmp_path, project_type, framework, torch_build):
    """Of torch a CPU build is installed; of the others pip finds for the CPU what is locked."""
    child = own_copy(render(AnswerSet(project_type, framework)), tmp_path, commit=True)
    run(child, "scripts/setup", *(["--framework", torch_build] if framework == "torch" else []))
    run(child, "scripts/lint")
    assert " passed" in run(child, "scripts/test")
    assert " passed" in run(child, "scripts/smoke")
    assert type_errors(child, tmp_path / "types", child / ".venv/bin/python") == ""
    if project_type == "service":
        text = run(child, "scripts/run", expect=78, DEVICE="cuda")
        assert "no GPU can be used" in text, f"{framework}: DEVICE=cuda without a GPU: {text}"


@pytest.fixture(scope="module")
def library(render, tmp_path_factory) -> Path:
    """Return a plain library that is set up, with the uv of this repository; the demo installs its own."""
    child = own_copy(render(AnswerSet("library", "plain")), tmp_path_factory.mktemp("library"), commit=True)
    venv.create(child / ".venv")
    shutil.copy2(Path(sys.executable).with_name("uv"), child / ".venv" / "bin" / "uv")
    run(child, "scripts/setup")
    return child


class TestScripts:
    """The scripts of a child that is set up."""

    @pytest.mark.slow
    def test_help_says_what_it_does_and_a_wrong_option_is_refused(self, library):
        for verb in ("setup", "lint", "test", "build", "smoke", "run", "shell", "lock", "update", "package", "publish"):
            assert f"usage: scripts/{verb}" in run(library, f"scripts/{verb}", "--help"), verb
        for verb in ("setup", "lint", "build", "smoke"):
            assert "unknown" in run(library, f"scripts/{verb}", "--wrong", expect=2), verb

    @pytest.mark.slow
    def test_publishing_says_what_is_missing(self, library):
        assert "run scripts/package first" in run(library, "scripts/publish", expect=2)
        run(library, "scripts/package")
        assert "contains version 0.1.0, not v9.9.9" in run(library, "scripts/publish", "v9.9.9", expect=2)
        assert "PACKAGE_INDEX_URL is not set" in run(library, "scripts/publish", "v0.1.0", expect=2)
        assert git(library, "status", "--porcelain") == ""

    @pytest.mark.slow
    def test_an_added_package_is_locked_and_nothing_else_changes(self, library):
        run(library, "scripts/lock")
        assert git(library, "status", "--porcelain") == ""
        project = library / "pyproject.toml"
        project.write_text(project.read_text().replace('"numpy>=2",', '"numpy>=2",\n  "tqdm>=4",'))
        run(library, "scripts/lock")
        assert "\ntqdm==" in (library / "requirements.lock").read_text()
        assert "changed after .venv was made" in run(library, "scripts/test", "-q")
        git(library, "checkout", "--quiet", ".")

    @pytest.mark.slow
    def test_a_framework_that_cannot_be_had_leaves_the_environment(self, library):
        text = run(library, "scripts/setup", "--framework", "numpy==99.9", expect=1)
        assert "numpy==99.9 was not found" in text, text
        assert " passed" in run(library / "src", "../scripts/test", "-q")
        assert "--framework needs PACKAGE==VERSION" in run(library, "scripts/setup", "--framework", expect=2)

    def test_build_says_how_to_get_the_base_image(self, library):
        stand_in(library, "docker", '[ "$1" = info ] || { echo pull access denied >&2; exit 1; }')
        pulls, refusal = run(library, "scripts/build", expect=3).strip().splitlines()
        assert "pulling registry.example.com/ml/plain-cu13:" in pulls
        assert "(pull access denied)" in refusal
        assert "make images IMAGE=plain-cu13 REGISTRY=registry.example.com/ml" in refusal
        stand_in(library, "docker", "exit 1")
        assert "Docker is not running" in run(library, "scripts/build", expect=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "expected"),
    sampled(
        [
            (["push", "--wrong"], "unknown option --wrong"),
            (["promote"], "is not a tag"),
            (["promote", "a tag"], "is not a tag"),
            (["promote", "main"], "run scripts/push first"),
            (["deploy"], "take one of dev prod"),
            (["deploy", "nowhere"], "take one of dev prod"),
            (["deploy", "../base"], "take one of dev prod"),
            (["deploy", "prod"], "run scripts/push first"),
            (["probe", "--wrong"], "unknown option --wrong"),
        ],
        every(4),
    ),
)
def test_the_verbs_of_a_release_say_what_is_missing(render, tmp_path, command, expected):
    child = own_copy(render(AnswerSet("service", "plain")), tmp_path, commit=True)
    for name in ("docker", "skopeo", "kubectl"):
        stand_in(child, name, "true")
    text = run(child, f"scripts/{command[0]}", *command[1:], expect=2)
    assert expected in text, text
    assert len(text.strip().splitlines()) == 1, text
    assert "usage: scripts/" in run(child, f"scripts/{command[0]}", "--help")


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
def test_a_library_without_a_model_is_checked_by_its_own_gpu_tests(in_docker):
    (in_docker / "src/topic_finder/model.py").unlink()
    text = run(in_docker, "scripts/smoke", "--require", "model", expect=1, RUN_IN="docker")
    assert "gpu-smoke --require gpu" in text, text
    assert "--model" not in text, text
    assert "pytest --junit-xml=build/test-results/smoke.xml tests/gpu" in text, text


@pytest.mark.slow
def test_neither_venv_nor_docker(in_docker):
    stand_in(in_docker, "docker", "exit 1")
    text = run(in_docker, "scripts/test", expect=3)
    assert text.strip() == "test: there is neither .venv nor Docker here: run scripts/setup first"
