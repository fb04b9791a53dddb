"""The walks for a machine with a GPU: on fakes of one they all end as they must, and without one nothing is claimed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.gpu_smoke.smoke_machine import MODELS, PACKAGE_ROOT, Machine

ROOT = PACKAGE_ROOT.parent


def run(machine: Machine, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the program on a pretended machine."""
    machine.root.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.gpu_smoke.on_a_gpu", "--out", str(machine.home / "evidence"), *options]
    return subprocess.run(command, env=machine.environment(), cwd=ROOT, capture_output=True, text=True)


def child(machine: Machine) -> Path:
    """Make what the program needs of a rendered child."""
    package = machine.home / "child" / "src" / "my_project"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    shutil.copy(MODELS / "smoke_models.py", package / "model.py")
    return machine.home / "child"


def test_without_a_gpu_or_a_child_it_says_so_and_leaves_no_evidence(machine: Machine) -> None:
    done = run(machine)
    assert (done.returncode, "There is no GPU here" in done.stderr) == (3, True), done.stdout + done.stderr
    done = run(machine, "--child", str(machine.home))
    assert (done.returncode, "is not a rendered child" in done.stderr) == (2, True), done.stdout + done.stderr
    assert not (machine.home / "evidence").exists()


def test_every_walk_is_kept_and_the_hidden_driver_is_named(machine: Machine) -> None:
    done = run(machine.good(), "--child", str(child(machine)))
    assert done.returncode == 0, done.stdout + done.stderr
    text = (machine.home / "evidence" / "gpu-smoke-fake-h100.json").read_text()
    kept = json.loads(text)
    walks = kept["walks"]
    assert list(walks) == ["gpu", "framework", "model", "driver hidden", "again"]
    assert {name: walk["exit_code"] for name, walk in walks.items() if walk["exit_code"]} == {"driver hidden": 1}
    assert walks["driver hidden"]["report"]["cause"]["code"] == "GS216"
    assert walks["model"]["report"]["require"] == "model"
    assert (kept["machine"]["gpu"], kept["machine"]["driver"]) == ("Fake H100", "580.65.06")
    assert kept["without_a_framework"]["median"]["total_s"] > 0
    assert "11111111-1111" not in text, "the evidence names the device itself"
    assert str(PACKAGE_ROOT.parent) not in text, "the evidence names this checkout"
