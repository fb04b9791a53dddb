"""The runtime reaches children: those of before it, and those that get another version with other packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.templates.test_child import run
from tests.updates.family import Family
from tests.updates.test_update import RELEASED, family, start  # noqa: F401 - a fixture

BATCH, SERVICE = AnswerSet("batch", "plain"), AnswerSet("service", "plain")
BEFORE = [version for version in RELEASED if version < "v0.3.0"]


def lines(text: str) -> set[str]:
    """Return the lines of a lock without its hashes."""
    return {line for line in text.splitlines() if "--hash" not in line}


@pytest.mark.slow
@pytest.mark.parametrize(
    "version", [pytest.param(v, marks=[] if v == BEFORE[-1] else pytest.mark.release) for v in BEFORE]
)
@pytest.mark.parametrize(
    ("answers", "own_test", "gone"),
    [
        (BATCH, "tests/test_job.py", "job/store.py"),
        (SERVICE, "tests/test_service.py", "serving/batcher.py"),
    ],
    ids=["batch", "service"],
)
def test_a_child_of_before_goes_on_with_its_own_model_and_tests(
    family: Family,  # noqa: F811
    tmp_path: Path,
    version: str,
    answers: AnswerSet,
    own_test: str,
    gone: str,
) -> None:
    child = start(family, tmp_path / "child", version, answers)
    before = {name: child.read(name) for name in ("pyproject.toml", "requirements.lock", own_test)}
    child.updated("--vcs-ref", family.work_tree)
    child.commit("Update")
    assert not child.has(f"src/topic_finder/{gone}")
    told = run(child.path, "scripts/setup")
    assert "requirements.lock does not name: running scripts/lock" in told, told
    assert " passed" in run(child.path, "scripts/test")
    run(child.path, "scripts/lint")
    assert child.read("pyproject.toml") == before["pyproject.toml"], f"{version}: pyproject.toml is the owner's"
    assert child.read(own_test) == before[own_test]
    moved = lines(before["requirements.lock"]) - lines(child.read("requirements.lock"))
    assert not moved, f"{version}: the lock moved more than the runtime: {moved}"
    assert "running scripts/lock" not in run(child.path, "scripts/setup"), "a second time nothing is to be done"


@pytest.mark.slow
def test_no_index_can_take_the_place_of_the_wheel(family: Family, tmp_path: Path) -> None:  # noqa: F811
    child = start(family, tmp_path / "child", family.work_tree, SERVICE)
    (child.path / ".venv/bin").mkdir(parents=True)
    (child.path / ".venv/bin/uv").symlink_to(Path(sys.executable).with_name("uv"))
    before = child.read("requirements.lock")
    for version in ("99.0", "0.3.0+evil"):
        source = tmp_path / version
        (source / "src/gpu_repo_runtime").mkdir(parents=True)
        (source / "src/gpu_repo_runtime/__init__.py").touch()
        text = (child.path / "wheels/requirements.in").read_text()
        assert "gpu-repo-runtime" in text
        project = f'[project]\nname = "gpu-repo-runtime"\nversion = "{version}"\n'
        backend = '[build-system]\nrequires = ["uv_build==0.13.8"]\nbuild-backend = "uv_build"\n'
        (source / "pyproject.toml").write_text(project + backend)
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", tmp_path / "evil", source], check=True)
    asked = subprocess.run(
        [uv, "pip", "compile", "--quiet", "--no-annotate", "--no-header", "--find-links", tmp_path / "evil", "-"],
        input="gpu-repo-runtime\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stdout == "gpu-repo-runtime==99.0\n", "the trap is set"
    links = ",".join(filter(None, (str(tmp_path / "evil"), os.environ.get("UV_FIND_LINKS"))))
    run(child.path, "scripts/lock", "--upgrade", UV_FIND_LINKS=links)
    [line] = [line for line in child.read("requirements.lock").splitlines() if "gpu-repo-runtime" in line]
    assert line in before
