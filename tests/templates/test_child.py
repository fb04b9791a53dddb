"""What an owner does first really works: the child's own scripts, and each of them says what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.answers import FRAMEWORKS, TYPES, AnswerSet
from tests.conftest import git
from tests.sampling import every, sampled
from tests.templates.typed import type_errors

SECONDS = 300


def run(child: Path, *command: str, expect: int = 0, **environment: str) -> str:
    """Run a command in a child as its owner would; fail with its output when the exit code is another."""
    clean = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH", "RUN_IN")}
    done = subprocess.run(
        command,
        cwd=child,
        env=clean | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == expect, (
        f"{' '.join(command)} in {child.name} ended with {done.returncode}:\n{done.stdout}"
    )
    return done.stdout


def own_copy(render, answers: AnswerSet, folder: Path) -> Path:
    """Return a copy of a rendered child, committed to git as its owner would."""
    child = folder / answers.id
    shutil.copytree(render(answers), child)
    git(child, "init", "--quiet", "--initial-branch=main")
    git(child, "add", "--all")
    git(child, "commit", "--quiet", "--message=Start from the template")
    return child


@pytest.mark.release  # make demo shows the same of a plain child of each type and of a torch service (test_demo.py)
@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name != "plain"])
@pytest.mark.parametrize("project_type", TYPES)
def test_setup_lint_test_and_smoke_of_a_child(render, tmp_path, project_type, framework, torch_build):
    """Of torch a CPU build is installed; of the others pip finds for the CPU what is locked."""
    child = own_copy(render, AnswerSet(project_type, framework), tmp_path)
    run(child, "scripts/setup", *(["--framework", torch_build] if framework == "torch" else []))
    run(child, "scripts/lint")
    assert " passed" in run(child, "scripts/test")
    assert " passed" in run(child, "scripts/smoke")
    assert type_errors(child, tmp_path / "types", child / ".venv/bin/python") == ""
    if project_type == "service":
        text = run(child, "scripts/run", expect=78, DEVICE="cuda")
        assert "no GPU can be used" in text, f"{framework}: DEVICE=cuda without a GPU: {text}"


@pytest.fixture(scope="module")
def library(render, tmp_path_factory) -> Iterator[Path]:
    """Give a plain library that is set up, with the uv of this repository; the demo installs its own."""
    child = own_copy(render, AnswerSet("library", "plain"), tmp_path_factory.mktemp("library"))
    venv.create(child / ".venv")
    shutil.copy2(Path(sys.executable).with_name("uv"), child / ".venv" / "bin" / "uv")
    run(child, "scripts/setup")
    yield child
    shutil.rmtree(child)


class TestScripts:
    """The scripts of a child that is set up."""

    VERBS = ("setup", "lint", "test", "build", "smoke", "run", "shell", "lock", "update", "package", "publish")

    @pytest.mark.slow
    @pytest.mark.parametrize("verb", sampled(VERBS, ["setup"]))
    def test_help_says_what_it_does(self, library, verb):
        text = run(library, f"scripts/{verb}", "--help")
        assert f"usage: scripts/{verb}" in text, text

    @pytest.mark.slow
    @pytest.mark.parametrize("verb", sampled(["setup", "lint", "build", "smoke"], ["setup"]))
    def test_a_wrong_option_is_refused(self, library, verb):
        text = run(library, f"scripts/{verb}", "--wrong", expect=2)
        assert "unknown" in text, text
        assert len(text.strip().splitlines()) == 1, text

    @pytest.mark.slow
    def test_publishing_says_what_is_missing(self, library):
        assert "run scripts/package first" in run(library, "scripts/publish", expect=2)
        run(library, "scripts/package")
        assert "contains version 0.1.0, not v9.9.9" in run(library, "scripts/publish", "v9.9.9", expect=2)
        assert "PACKAGE_INDEX_URL is not set" in run(library, "scripts/publish", "v0.1.0", expect=2)
        assert git(library, "status", "--porcelain") == ""

    @pytest.mark.slow
    def test_scripts_work_from_any_folder(self, library):
        assert " passed" in run(library / "src", "../scripts/test", "-q")

    @pytest.mark.slow
    def test_lock_changes_nothing_when_nothing_changed(self, library):
        run(library, "scripts/lock")
        assert git(library, "status", "--porcelain") == ""

    @pytest.mark.slow
    def test_an_added_package_is_locked_under_the_image(self, library):
        project = library / "pyproject.toml"
        project.write_text(project.read_text().replace('"numpy>=2",', '"numpy>=2",\n  "tqdm>=4",'))
        run(library, "scripts/lock")
        assert "\ntqdm==" in (library / "requirements.lock").read_text()
        assert "changed after .venv was made, or scripts/setup did not end: run it" in run(
            library, "scripts/test", "-q"
        )
        git(library, "checkout", "--quiet", ".")
        assert "changed after" not in run(library, "scripts/test", "-q")

    @pytest.mark.slow
    def test_a_package_that_does_not_fit_the_image_is_refused_and_nothing_written(self, library):
        project = library / "pyproject.toml"
        project.write_text(project.read_text().replace('"numpy>=2",', '"numpy<2",'))
        text = run(library, "scripts/lock", expect=1)
        assert "versions that fit the base image plain-cu13" in text, text
        assert git(library, "status", "--porcelain").split() == ["M", "pyproject.toml"]
        git(library, "checkout", "--quiet", ".")

    @pytest.mark.slow
    def test_a_framework_that_cannot_be_had_leaves_the_environment(self, library):
        text = run(library, "scripts/setup", "--framework", "numpy==99.9", expect=1)
        assert "numpy==99.9 was not found" in text, text
        assert " passed" in run(library, "scripts/test", "-q")
        assert "--framework needs PACKAGE==VERSION" in run(library, "scripts/setup", "--framework", expect=2)

    def test_a_conflict_marker_fails_lint(self, library):
        (library / "notes.txt").write_text("<<<<<<< before updating\n")
        text = run(library, "scripts/lint", expect=1)
        assert "notes.txt" in text, text
        (library / "notes.txt").unlink()

    def test_build_says_how_to_get_the_base_image(self, library, tmp_path):
        fake = tmp_path / "docker"
        fake.write_text('#!/bin/sh\n[ "$1" = info ] || { echo pull access denied >&2; exit 1; }\n')
        fake.chmod(0o755)
        text = run(library, "scripts/build", expect=3, PATH=f"{tmp_path}:{os.environ['PATH']}")
        pulls, refusal = text.strip().splitlines()
        assert "pulling registry.example.com/ml/plain-cu13:" in pulls, text
        assert "(pull access denied)" in refusal, text
        assert "make images IMAGE=plain-cu13 REGISTRY=registry.example.com/ml" in refusal, text

    def test_without_docker_build_says_so(self, library, tmp_path):
        fake = tmp_path / "docker"
        fake.write_text("#!/bin/sh\nexit 1\n")
        fake.chmod(0o755)
        assert "Docker is not running" in run(
            library, "scripts/build", expect=3, PATH=f"{tmp_path}:{os.environ['PATH']}"
        )


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
    child = own_copy(render, AnswerSet("service", "plain"), tmp_path)
    for name in ("docker", "skopeo", "kubectl"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    text = run(child, f"scripts/{command[0]}", *command[1:], expect=2, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert expected in text, text
    assert len(text.strip().splitlines()) == 1, text
    assert "usage: scripts/" in run(child, f"scripts/{command[0]}", "--help")


DOCKER = """#!/bin/sh
case "$*" in
    "info --format"*) echo "$RUNTIMES" ;;
    info*) ;;
    "image inspect"*) ;;
    run*) echo "docker $*"; mkdir -p build/test-results; echo "<testsuites/>" >build/test-results/unit.xml ;;
    *) echo "docker $*" ;;
esac
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpu", "runtimes", "expected"),
    sampled(
        [
            (False, '{"nvidia":{}}', "no GPU"),
            (True, '{"nvidia":{}}', "--gpus all"),
            (True, '{"runc":{}}', "cannot hand out"),
        ],
        every(3),
    ),
)
def test_docker_gets_the_gpus_of_the_machine(render, tmp_path, gpu, runtimes, expected):
    child = own_copy(render, AnswerSet("library", "plain"), tmp_path)
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    library = child / "scripts" / "lib.sh"
    device = tmp_path / "nvidiactl"
    if gpu:
        device.touch()
    library.write_text(library.read_text().replace("/dev/nvidiactl", str(device)))
    text = run(child, "scripts/test", PATH=f"{tmp_path}:{os.environ['PATH']}", RUNTIMES=runtimes)
    assert expected in text, text
    assert ("--gpus all" in text) == (expected == "--gpus all"), text
    assert "topic-finder:dev-test python -m pytest" in text, text


@pytest.mark.slow
def test_a_library_without_a_model_is_checked_by_its_own_gpu_tests(render, tmp_path):
    child = own_copy(render, AnswerSet("library", "plain"), tmp_path)
    (child / "src/topic_finder/model.py").unlink()
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    text = run(child, "scripts/smoke", "--require", "model", expect=1, PATH=path, RUN_IN="docker")
    assert "gpu-smoke --require gpu" in text, text
    assert "--model" not in text, text
    assert "pytest --junit-xml=build/test-results/smoke.xml tests/gpu" in text, text


@pytest.mark.slow
def test_neither_venv_nor_docker(render, tmp_path):
    child = own_copy(render, AnswerSet("library", "plain"), tmp_path)
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "docker").chmod(0o755)
    text = run(child, "scripts/test", expect=3, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert text.strip() == "test: there is neither .venv nor Docker here: run scripts/setup first"
