"""An owner who ejects the runtime has its source, uses it, and is told by updates what it misses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_repo_runtime import eject

from tests.answers import AnswerSet
from tests.sampling import sampled
from tests.templates import checks

COPY = "src/gpu_repo_runtime"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with a folder src and the wheel of this version."""
    monkeypatch.setattr(eject.importlib.metadata, "version", lambda _: "0.3.0")
    (tmp_path / "src").mkdir()
    shutil.copytree(Path(__file__).parents[2] / "templates/service/wheels", tmp_path / "wheels")
    return tmp_path


def test_the_copy_is_used_in_place_of_the_wheel(project: Path) -> None:
    eject.eject(project)
    (project / COPY / "cores.py").write_text("mine = True\n", encoding="utf-8")
    program = "import gpu_repo_runtime.cores as c; print(c.mine, c.__file__)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(project / "src"), str(eject.PACKAGE.parent)])}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", str(project / COPY / "cores.py")]


def test_a_copy_is_never_replaced(project: Path) -> None:
    (project / COPY).mkdir()
    with pytest.raises(eject.CannotEject, match=f"git rm -r {COPY}"):
        eject.eject(project)
    assert list((project / COPY).iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("project_type", sampled(["service", "batch"], ["batch"]))
def test_the_copy_passes_the_lint_of_a_repository(
    render: Callable[[AnswerSet], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project_type: str
) -> None:
    monkeypatch.setattr(eject.importlib.metadata, "version", lambda _: "0.3.0")
    child = tmp_path / "child"
    shutil.copytree(render(AnswerSet(project_type, "plain")), child)
    eject.eject(child)
    assert checks.python_error(child) == ""
