"""benchmarks/service/gpu.py where it cannot measure, and the weights it rounds."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT

PROGRAM = ROOT / "benchmarks/service/gpu.py"


@pytest.mark.parametrize(("prepared", "words"), [(False, "was not made by --prepare"), (True, "not installed here: ")])
def test_a_machine_where_it_cannot_run_gets_one_line(tmp_path: Path, prepared: bool, words: str) -> None:
    if prepared:
        (tmp_path / "child").mkdir()
    # -S: no package at all
    command = [sys.executable, "-S", PROGRAM, "--prepared", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("gpu.py: ")
    assert words in line


def test_weights_are_rounded_and_everything_else_stays(tmp_path: Path) -> None:
    """The file format: eight bytes of length, a JSON head with types and places, the numbers."""
    spec = importlib.util.spec_from_file_location("service_gpu", PROGRAM)
    assert spec
    assert spec.loader
    gpu = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gpu)
    floats, integers = np.array([[0.1, -2.5, 3e-5]], "<f4"), np.array([7, 8], "<i8")
    head = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [1, 3], "data_offsets": [0, 12]},
        "b": {"dtype": "I64", "shape": [2], "data_offsets": [12, 28]},
    }
    text, weights = json.dumps(head).encode(), tmp_path / "model.safetensors"
    weights.write_bytes(len(text).to_bytes(8, "little") + text + floats.tobytes() + integers.tobytes())
    gpu.halve(weights)
    raw = weights.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    told = json.loads(raw[8:start])
    assert (told["a"]["dtype"], told["a"]["data_offsets"], told["b"]["data_offsets"]) == ("F16", [0, 6], [6, 22])
    assert np.frombuffer(raw[start : start + 6], "<f2") == pytest.approx(floats[0], rel=1e-3)
    assert raw[start + 6 :] == integers.tobytes()
