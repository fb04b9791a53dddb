"""The wheel and what it needs, on every Python that a child may have."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.conftest import ROOT
from tests.runtime.services import RUNTIME
from tests.runtime.test_wheel import WHEEL

UV = Path(sys.executable).with_name("uv")
PYTHONS = ("3.11", "3.12", "3.13")
# Modules that need a framework; the children that have it import them.
WITHOUT = ("_torch", "_tensorflow", "_cupy")
IMPORT_ALL = """
import importlib, pathlib, sys
names = sys.argv[1].split(",")
for name in names:
    importlib.import_module(name)
print(len(names), sys.version_info[:2], importlib.import_module("gpu_repo_runtime").__file__)
"""


def uv(*command: object, cwd: Path = ROOT) -> str:
    """Run uv; fail with what it says."""
    done = subprocess.run([UV, *map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def modules(*folders: str) -> list[str]:
    """Return the modules in some folders of the runtime that need no framework; "" is its root."""
    paths = [path for folder in folders for path in (RUNTIME / "gpu_repo_runtime" / folder).glob("*.py")]
    named = [path.relative_to(RUNTIME).with_suffix("") for path in paths if path.stem not in ("__init__", "__main__")]
    return sorted(".".join(path.parts) for path in named if not path.stem.endswith(WITHOUT))


@pytest.mark.release
@pytest.mark.parametrize("project_type", ["batch", "service"])
@pytest.mark.parametrize("python", PYTHONS)
def test_every_locked_package_has_a_wheel_for_it(
    render: Callable[[AnswerSet], Path], tmp_path: Path, python: str, project_type: str
) -> None:
    """Nothing is installed: uv takes the lock of a new child for that Python, and no package may need a compiler."""
    child = render(AnswerSet(project_type, "plain"))
    options = ("--dry-run", "--require-hashes", "--only-binary", ":all:", "--python-version", python)
    uv("pip", "install", *options, "--target", tmp_path / "target", "-r", "requirements.lock", cwd=child)


@pytest.mark.release
@pytest.mark.parametrize("python", PYTHONS)
def test_it_installs_and_every_module_of_it_imports(tmp_path: Path, python: str) -> None:
    found = subprocess.run(
        [UV, "python", "find", "--no-python-downloads", python], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip(f"Python {python} is not installed here")
    uv("venv", "--quiet", "--python", found.stdout.strip(), tmp_path / "venv")
    within = tmp_path / "venv/bin/python"
    uv("pip", "install", "--quiet", "--python", within, f"{WHEEL.resolve()}[serving,batch,training]", "pytest")
    names = modules("", "batch", "serving", "training", "bench", "device")
    done = subprocess.run(
        [within, "-I", "-W", "error::SyntaxWarning", "-c", IMPORT_ALL, ",".join(names)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "venv") in done.stdout, f"not the wheel's: {done.stdout}"
