"""From every release, for every type and framework: an update keeps each line of the owner or names its file.

Without installing anything: what an updated child does with its packages is in test_runtime.py and test_update.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.answers import FRAMEWORKS, TYPES, AnswerSet
from tests.updates.copiers import ROOT
from tests.updates.family import Family
from tests.updates.program import Program
from tests.updates.test_update import RELEASED, family, start  # noqa: F401 - a fixture
from tests.updates.tiny import Child

BEFORE = [version for version in RELEASED if version < "v0.3.0"]  # with serving/ and job/ in the child
SINCE = {"jax": "v0.4.0"}  # where a framework is younger than the releases
NOT_TEXT = {".json", ".lock", ".npz", ".whl", ".png"}
RUN = """
import json, sys
from gpu_repo_runtime.contract import import_model
from gpu_repo_runtime.interface import Interface
from gpu_repo_runtime.weights.using import load
interface = Interface(import_model("topic_finder"))
load(interface.model, "cpu")
print(json.dumps([interface.deprecations, interface.answers(interface.examples())]))
"""


def cases() -> list[object]:
    """Return every release with every set; CI has one from the last release with a service of its own."""
    return [
        pytest.param(
            version,
            answers,
            id=f"{version}-{answers.id}",
            marks=pytest.mark.slow if (version, answers.id) == (BEFORE[-1], SLOW.id) else pytest.mark.release,
        )
        for version in RELEASED
        for answers in (AnswerSet(kind, framework) for kind in TYPES for framework in FRAMEWORKS)
        if version >= SINCE.get(answers.framework, "")
    ]


SLOW = AnswerSet("service", "plain")


def owners_lines(child: Child, package: str) -> dict[str, str]:
    """Let the owner write a line into every text, and files of its own; return each file with its line."""
    names = [name for name in child.git("ls-files").splitlines() if Path(name).suffix not in NOT_TEXT]
    names = [name for name in names if name != ".copier-answers.yml" and "lock" not in Path(name).name]
    folders = {
        Path(name).parent.as_posix() for name in names if name.startswith((f"src/{package}", "scripts", "deploy"))
    }
    lines = {name: f"# of the owner: {number}." for number, name in enumerate(names)}
    lines |= {f"{folder}/own_{number}.txt": f"# own file: {number}." for number, folder in enumerate(sorted(folders))}
    child.edit({name: (child.read(name) if child.has(name) else "") + f"{line}\n" for name, line in lines.items()})
    return lines


def where(child: Child, line: str) -> list[str]:
    """Return the files of the work tree that hold a line, those that git does not know yet included."""
    command = ["git", "grep", "--untracked", "-lF", line]
    return subprocess.run(command, cwd=child.path, capture_output=True, text=True, check=False).stdout.splitlines()


def answered(child: Child) -> tuple[list[str], list[Any]]:
    """Return the deprecations of the child's model on this runtime, and its answers to its own examples."""
    path = os.pathsep.join([str(child.path / "src"), str(ROOT / "runtime/src")])
    done = subprocess.run(
        [sys.executable, "-c", RUN], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: tuple[list[str], list[Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("version", "answers"), cases())
def test_each_line_of_the_owner_is_kept(
    family: Family,  # noqa: F811
    tmp_path: Path,
    program: Program,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    answers: AnswerSet,
) -> None:
    for name, value in family.copier.environment().items():
        monkeypatch.setenv(name, value)
    child = start(family, tmp_path / "child", version, answers)
    lines = owners_lines(child, answers.package_name)
    assert program(child, "--to", family.work_tree, "--no-lock") in (0, 3, 4), program.out + program.err
    told = program.out

    lost = [name for name, line in lines.items() if not where(child, line)]
    assert not lost, f"{version} {answers.id}: gone without a trace: {lost}\n{told}"
    moved = [name for name, line in lines.items() if name not in where(child, line) and name not in told]
    assert not moved, f"{version} {answers.id}: elsewhere, and not named: {moved}\n{told}"
    for folder in ("serving", "job"):
        retired = f"src/{answers.package_name}/{folder}/"
        for name in (name for name in lines if name.startswith(retired) and not name.endswith("__init__.py")):
            assert where(child, lines[name]) == [name]
            assert name in told or "/own_" in name, f"{version} {answers.id}: {name} is not named\n{told}"
    if answers.project_type != "library" and answers.framework == "plain":
        deprecations, found = answered(child)
        assert found, f"{version} {answers.id}"
        assert not deprecations or version in BEFORE, (version, answers.id, deprecations)
