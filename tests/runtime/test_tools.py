"""The programs behind a repository's scripts: they run straight from the wheel, without what the runtime needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import TYPES, AnswerSet
from tests.runtime.services import RUNTIME
from tests.sampling import sampled

LOADED = "import sys; print(*(name for name in sys.modules if name.startswith('gpu_repo_runtime')))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the package in an archive, as the wheel holds it."""
    place = tmp_path_factory.mktemp("wheel") / "runtime.whl"
    with zipfile.ZipFile(place, "w") as archive:
        for path in sorted(RUNTIME.rglob("*.py")):
            archive.write(path, path.relative_to(RUNTIME))
    return place


def python(*options: str, wheel: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with the wheel alone on its path, in an empty folder."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(wheel), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, *options]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_updater_loads_all_that_it_needs_of_the_runtime_at_once(wheel: Path, tmp_path: Path) -> None:
    """An update takes the wheel away under the running program: what is imported later would be gone."""
    done = python("-c", f"import gpu_repo_runtime.update.cli; {LOADED}", wheel=wheel, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    loaded = {name.removeprefix("gpu_repo_runtime").lstrip(".") for name in done.stdout.split()}
    own = {path.stem for path in (RUNTIME / "gpu_repo_runtime/update").glob("[!_]*.py")}
    assert loaded == {
        "",
        "locking",
        "package_index",
        "project",
        "script_error",
        "update",
        *(f"update.{name}" for name in own),
    }


PROGRAMS = ["environment", "locking", "scripts.__main__", "serving.probe"]


@pytest.mark.parametrize("program", sampled(PROGRAMS, ["environment", "scripts.__main__"]))
def test_what_is_asked_on_an_agent_or_in_an_image_needs_the_standard_library_alone(
    wheel: Path, tmp_path: Path, program: str
) -> None:
    done = python("-S", "-c", f"import gpu_repo_runtime.{program}", wheel=wheel, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def answering(wheel: Path, text: str) -> None:
    """Write a wheel whose scripts say a text and the words after the facts."""
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("gpu_repo_runtime/__init__.py", "")
        archive.writestr("gpu_repo_runtime/scripts.py", f"import sys; print('{text}', *sys.argv[-3:], sep='|')")


@pytest.mark.parametrize("project_type", sampled(list(TYPES), ["batch"]))
def test_scripts_take_the_newest_wheel_and_say_where_there_is_no_whole_one(
    render: Callable[[AnswerSet], Path], tmp_path: Path, project_type: str
) -> None:
    """Two are there after a merge of two branches with updates. Scripts run the wheel's runtime, not a copy in src/."""
    child = tmp_path / "child"
    shutil.copytree(render(AnswerSet(project_type, "plain")), child)
    [carried] = (child / "wheels").glob("*.whl")
    whole = carried.read_bytes()
    (child / "src/gpu_repo_runtime").mkdir()
    (child / "src/gpu_repo_runtime/__init__.py").write_text("raise SystemExit('a copy of the runtime')\n")

    def said() -> tuple[int, str]:
        done = subprocess.run(
            ["scripts/test", "a", "b c"], cwd=child / "src", capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": "src"}, executable=child / "scripts/test",
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    for part in (b"version https://git-lfs.github.com/spec/v1\n", b"", whole[:100_000] + b"\0" * 22, None):
        carried.write_bytes(part) if part is not None else carried.unlink()
        code, text = said()
        assert (code, text.count("\n"), "or a part of it: 'git checkout HEAD -- wheels'" in text) == (1, 1, True), text
    for version in ("0.9.0", "0.10.0"):
        answering(child / f"wheels/gpu_repo_runtime-{version}-py3-none-any.whl", version)
    assert said() == (0, "0.10.0|test|a|b c\n")
