"""The wheel and what it needs, on every Python that a child may have."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
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
WITHOUT = ("_torch", "_tensorflow", "_cupy", "_jax", "sharding")
MODEL = """
class Model:
    examples = ("rain",)
    tolerance = 0.0
    def load(self, device: str) -> None: ...
    def predict(self, batch: list[str]) -> list[int]:
        return [len(text) for text in batch]
"""
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


def with_the_wheel(venv: Path, python: str) -> Path:
    """Return the interpreter of a new environment that holds the wheel and what it needs, and nothing of ours."""
    found = subprocess.run(
        [UV, "python", "find", "--no-python-downloads", python], capture_output=True, text=True, check=False
    )
    kept = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{python}.*/bin/python"))
    if found.returncode and not kept:
        pytest.skip(f"Python {python} is not installed here")
    uv("venv", "--quiet", "--python", kept[-1] if found.returncode else found.stdout.strip(), venv)
    within = venv / "bin/python"
    uv("pip", "install", "--quiet", "--python", within, f"{WHEEL.resolve()}[serving,batch,training]", "pytest")
    return within


@pytest.mark.release
@pytest.mark.parametrize("python", PYTHONS)
def test_it_installs_and_every_module_of_it_imports(tmp_path: Path, python: str) -> None:
    """A service runs on it too: ready, an answer, and 0 at SIGTERM."""
    within, log = with_the_wheel(tmp_path / "venv", python), tmp_path / "service.log"
    names = modules("", "batch", "serving", "training", "bench", "device")
    command = [within, "-I", "-W", "error::SyntaxWarning", "-c", IMPORT_ALL, ",".join(names)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "venv") in done.stdout, f"not the wheel's: {done.stdout}"
    (package := tmp_path / "src/topic_finder").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "model.py").write_text(MODEL)
    own = {"PORT": "0", "LISTEN_HOST": "127.0.0.1", "DEVICE": "cpu", "PYTHONPATH": str(tmp_path / "src")}
    with log.open("w") as output:
        command = [within, "-m", "gpu_repo_runtime.serving", "topic_finder"]
        service = subprocess.Popen(command, env=os.environ | own, stdout=output, stderr=output, cwd=tmp_path)
    try:
        end = time.monotonic() + 60
        while '"message":"ready"' not in log.read_text() and time.monotonic() < end and service.poll() is None:
            time.sleep(0.1)
        port = re.search(r'"port":(\d+)', log.read_text())
        assert port, log.read_text()
        address, headers = f"http://127.0.0.1:{port[1]}/predict", {"Content-Type": "application/json"}
        asked = urllib.request.Request(address, b'{"instances": ["rain"]}', headers)
        with urllib.request.urlopen(asked, timeout=20) as answer:
            assert json.load(answer) == {"predictions": [4]}
        service.terminate()
        assert service.wait(30) == 0, log.read_text()
    finally:
        service.kill()
