"""What all tests share: the template as a git repository, the answer sets, rendered children."""

from __future__ import annotations

import compileall
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from copier import run_copy

from tests.answers import AnswerSet
from tests.needs import pytest_itemcollected, pytest_runtest_setup  # noqa: F401 - hooks of pytest
from tests.rows import pytest_collection_modifyitems, pytest_runtest_teardown  # noqa: F401 - hooks of pytest
from tests.shared import ROOT, once, shared_folder, without_shims
from tests.skips import pytest_sessionfinish  # noqa: F401 - hooks of pytest

if TYPE_CHECKING:
    from tests.updates.family import Family

OURS = ("hooks", "tools", "runtime/src", "base-images")
PROGRAMS = ROOT / "build" / "bin"  # last on the PATH of the tests: kubectl, for a machine that has none
IDENTITY = ["-c", "user.name=Owner", "-c", "user.email=owner@example.com", "-c", "commit.gpgsign=false"]
# What the runtime around a model in PyTorch needs.
TORCH_NEEDS = (
    "accelerate>=1.10",
    "scikit-learn",
    "numpy",
    "pyarrow",
    "matplotlib",
    "tqdm",
    "pydantic",
)


# pytest keeps what it makes of the tests, whatever the processes that tests start are told about their own modules.
sys.dont_write_bytecode = False


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile what is ours once, and not in each process that a test starts."""
    os.environ["PATH"] = f"{without_shims(os.environ['PATH'])}{os.pathsep}{PROGRAMS}"
    if not hasattr(session.config, "workerinput"):
        PROGRAMS.mkdir(parents=True, exist_ok=True)
        (PROGRAMS / "kubectl").unlink(missing_ok=True)
        (PROGRAMS / "kubectl").symlink_to(Path(sys.executable).with_name("kubectl"))
        for folder in OURS:
            compileall.compile_dir(ROOT / folder, quiet=2)


def git(folder: Path, *arguments: str) -> str:
    """Run git in `folder` and return what it prints. Raises CalledProcessError."""
    done = subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def copy_work_tree(target: Path) -> None:
    """Copy the files of this work tree, committed or not, to the folder `target`; a company's values stay away."""
    names = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    shutil.copyfile(ROOT / "tests" / "company.yml", target / "company.yml")


@pytest.fixture(scope="session")
def family(shared: Path) -> Family:
    """Return this repository with its releases, the work tree and a made-up next release as tags."""
    from tests.updates.family import shared_family

    return shared_family(shared)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all workers of this run have in common."""
    return shared_folder(tmp_path_factory)


@pytest.fixture(scope="session")
def template(shared: Path) -> Path:
    """Return the work tree as a git repository of one commit, so that tests see uncommitted changes too."""

    def make(target: Path) -> None:
        copy_work_tree(target)
        git(target, "init", "--quiet", "--initial-branch=main")
        git(target, "add", "--all")
        git(target, "commit", "--quiet", "--message=The work tree")

    return once(shared / "template", make)


@pytest.fixture(scope="session", autouse=True)
def _own_copier_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the settings and the cache of the person who runs the tests out of them."""
    folder = tmp_path_factory.mktemp("copier")
    (folder / "settings.yml").write_text("{}\n")
    os.environ["COPIER_SETTINGS_PATH"] = str(folder / "settings.yml")
    os.environ["COPIER_CACHE_DIR"] = str(folder / "cache")
    os.environ["MYPY_CACHE_DIR"] = str(ROOT / "build" / "mypy")  # scripts/lint of each child reads the same types


@pytest.fixture(scope="session")
def render(template: Path, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[AnswerSet], Path]:
    """Return a function that renders an answer set, once for all workers, and returns this worker's copy of it."""
    commit = git(template, "rev-parse", "HEAD").strip()
    copies = tmp_path_factory.mktemp("renders")

    @cache
    def of(answers: AnswerSet) -> Path:
        def make(target: Path) -> None:
            try:
                run_copy(str(template), target, data=answers.as_dict(), defaults=True, quiet=True, vcs_ref=commit)
            except Exception as error:
                raise AssertionError(f"{answers.id} does not render: {error!r}") from error

        which = hashlib.sha256(repr(answers).encode()).hexdigest()[:8]  # two sets may differ in a text only
        name = f"{answers.id}-{which}"
        return shutil.copytree(once(shared / "renders" / name, make), copies / name, copy_function=copied)

    return of


def copied(source: str, target: str) -> object:
    """Copy a file, but for weights, which nobody writes into: megabytes in each of many copies."""
    return os.link(source, target) if source.endswith(".npz") else shutil.copy2(source, target)


@pytest.fixture(scope="session")
def torch_build() -> str:
    """Return a build of torch that pip finds on disk, so that no test takes several GB; else skip."""
    found = subprocess.run(["pip", "config", "get", "global.find-links"], capture_output=True, text=True, check=False)
    wheels = sorted(Path(found.stdout.strip() or "/nowhere").glob("torch-*cpu*.whl"))
    if not wheels:
        pytest.skip("pip is not set to find a CPU build of torch, and PyPI's takes several GB")
    os.environ["UV_FIND_LINKS"] = found.stdout.strip()
    return f"torch=={wheels[-1].name.split('-')[1].split('+')[0]}"


@pytest.fixture(scope="session")
def torch_python(torch_build: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python that has torch and what the training needs."""

    def make(folder: Path) -> None:
        uv = Path(sys.executable).parent / "uv"
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
        python = folder / "bin" / "python"
        subprocess.run([uv, "pip", "install", "--quiet", "--python", python, torch_build, *TORCH_NEEDS], check=True)

    return once(shared_folder(tmp_path_factory) / "torch-venv", make) / "bin" / "python"
