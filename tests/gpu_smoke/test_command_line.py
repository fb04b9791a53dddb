"""The command line's contract: exit codes, output files, one-file form, Python versions."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipapp
from pathlib import Path

import pytest

from tests.gpu_smoke.smoke_machine import MODELS, PACKAGE_ROOT, Machine, told

PACKAGE = PACKAGE_ROOT / "gpu_smoke"


WRONG_USE = [
    "--mode image --require gpu",
    "--require model",
    "--model no-colon",
    "--gpus 0",
    "--timeout 0",
    "--timeout soon",
    "--json /no/such/folder/report.json",
    "--junit /",
    "--json same.json --junit ./same.json",
    "--json - --junit -",
    "--explain GS999",
]


def test_wrong_use_is_2_with_one_reason() -> None:
    for words in WRONG_USE:
        result = told(*words.split())
        assert (result.code, "gpu-smoke" in result.errors) == (2, True), f"{words}: {result.text}{result.errors}"


@pytest.mark.parametrize("target", ["/proc/report.json", "/dev/full", "n" * 300])
def test_report_that_cannot_be_written_is_3(machine: Machine, target: str) -> None:
    command = [sys.executable, "-m", "gpu_smoke", "--json", target, "--junit", "junit.xml"]
    done = subprocess.run(command, env=machine.environment(), capture_output=True, text=True, cwd=machine.home)
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stderr.startswith(f"gpu-smoke: could not run: --json {target} cannot be written: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert (machine.home / "junit.xml").exists(), "one report that cannot be written must not cost the other"


def test_a_report_on_standard_output_is_alone_there(machine: Machine) -> None:
    command = [sys.executable, "-m", "gpu_smoke", "--require", "gpu", "--json", "-"]
    environment = machine.good().environment()
    done = subprocess.run(command, env=environment, cwd=machine.home, capture_output=True, text=True)
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (0, "pass"), done.stderr
    assert "PASS, required gpu" in done.stderr


@pytest.mark.parametrize("form", ["module", "launcher", "zipapp"])
def test_nothing_in_the_working_folder_stands_for_a_module(machine: Machine, form: str) -> None:
    """A json.py beside the program, or a torch.py, must not turn a fault into a pass."""
    machine.good().set(CUINIT_RC=803)
    own = () if form == "module" else ("gpu_smoke",)  # `-m` takes its module from the working folder first
    for name in ("json", "argparse", "ctypes", "selectors", "torch", "host", *own):
        (machine.home / f"{name}.py").write_text("import os\nos._exit(0)\n")
    # The folder of the program is not a place for other modules either.
    place = shutil.copytree(PACKAGE, machine.home / "program")
    (place / "torch.py").write_text("import os\nos._exit(0)\n")
    if form == "zipapp":
        zipapp.create_archive(place, machine.home / "gpu-smoke.pyz")
    environment = machine.environment()
    forms = {"module": ["-m", "gpu_smoke"], "launcher": ["-I", str(place)], "zipapp": ["gpu-smoke.pyz"]}
    command = [sys.executable, *forms[form], "--require", "gpu", "--json", "out.json"]
    done = subprocess.run(command, env=environment, cwd=machine.home, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads((machine.home / "out.json").read_text())["cause"]["code"] == "GS310"


PYTHONS = [f"python3.{minor}" for minor in (11, 12, 13, 14)]


@pytest.mark.parametrize("name", PYTHONS)
def test_every_python_from_the_oldest_on_without_a_package(machine: Machine, name: str) -> None:
    beside = Path(sys.base_prefix).parent
    python = shutil.which(name) or next(map(str, beside.glob(f"*/bin/{name}")), "")
    if not python or subprocess.run([python, "-c", "import ctypes"], capture_output=True).returncode:
        pytest.skip(f"{name} is not installed here")
    environment = machine.good().set(CUINIT_RC=803).environment()
    command = [python, "-S", "-m", "gpu_smoke", "--require", "gpu", "--json", "out.json"]
    done = subprocess.run(command, env=environment, cwd=machine.home, capture_output=True, text=True)
    assert done.returncode == 1, f"{python}: {done.stdout}{done.stderr}"
    assert json.loads((machine.home / "out.json").read_text())["cause"]["code"] == "GS310", python


@pytest.mark.parametrize(
    ("named", "here", "found"), [("tensorflow", True, "tensorflow"), ("", True, "torch"), ("", False, "plain")]
)
def test_framework_of_the_image_is_the_default(machine: Machine, named: str, here: bool, found: str) -> None:
    machine.good().image(framework=named)
    machine.python_path = machine.python_path if here else []
    # Without site-packages, where the tests' own Python may have a framework.
    command = [sys.executable, "-S", "-m", "gpu_smoke", "--mode", "image", "--json", "out.json"]
    subprocess.run(command, env=machine.environment(), cwd=machine.home, capture_output=True)
    assert json.loads((machine.home / "out.json").read_text())["framework"] == found


def test_model_is_found_in_the_checkout(machine: Machine) -> None:
    source = machine.home / "src" / "my_project"
    source.mkdir(parents=True)
    shutil.copy(MODELS / "smoke_models.py", source / "model.py")
    (source / "__init__.py").write_text("")
    result = machine.good().run("--require", "model", "--model", "my_project.model:Model")
    assert result.code == 0, result.text
