"""What all tests share: the template as a git repository, the answer sets, rendered children."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.rows import pytest_collection_modifyitems, pytest_runtest_teardown  # noqa: F401 - hooks of pytest

ROOT = Path(__file__).resolve().parent.parent
IDENTITY = ["-c", "user.name=Owner", "-c", "user.email=owner@example.com", "-c", "commit.gpgsign=false"]


def git(folder: Path, *arguments: str) -> str:
    """Run git in `folder` and return what it prints. Raises CalledProcessError."""
    done = subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the work tree as a git repository of one commit, so that tests see uncommitted changes too."""
    target = tmp_path_factory.mktemp("template")
    names = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    git(target, "init", "--quiet", "--initial-branch=main")
    git(target, "add", "--all")
    git(target, "commit", "--quiet", "--message=The work tree")
    return target


@pytest.fixture(scope="session", autouse=True)
def _own_copier_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the settings and the cache of the person who runs the tests out of them."""
    folder = tmp_path_factory.mktemp("copier")
    (folder / "settings.yml").write_text("{}\n")
    os.environ["COPIER_SETTINGS_PATH"] = str(folder / "settings.yml")
    os.environ["COPIER_CACHE_DIR"] = str(folder / "cache")


@pytest.fixture(scope="session")
def render(template: Path, copie_session) -> Callable[[AnswerSet], Path]:  # type: ignore[no-untyped-def]
    """Return a function that renders an answer set, once for each, and returns the child's folder."""
    rendered: dict[AnswerSet, Path] = {}

    def of(answers: AnswerSet) -> Path:
        if answers not in rendered:
            result = copie_session.copy(extra_answers=answers.as_dict(), template_dir=template)
            assert result.exit_code == 0, f"{answers.id} does not render: {result.exception!r}"
            rendered[answers] = result.project_dir
        return rendered[answers]

    return of


@pytest.fixture(scope="session")
def torch_build() -> str:
    """Return a build of torch that pip finds on disk, so that no test takes several GB; else skip."""
    found = subprocess.run(["pip", "config", "get", "global.find-links"], capture_output=True, text=True, check=False)
    wheels = sorted(Path(found.stdout.strip() or "/nowhere").glob("torch-*cpu*.whl"))
    if not wheels:
        pytest.skip("pip is not set to find a CPU build of torch, and PyPI's takes several GB")
    os.environ["UV_FIND_LINKS"] = found.stdout.strip()
    return f"torch=={wheels[-1].name.split('-')[1].split('+')[0]}"
