"""What gpu-smoke calls fits NVIDIA's own headers: functions, arguments, enumerations, codes.

The fakes take what they are given. A number of 4 bytes where 8 are read would show on a GPU alone.
tests/images does the same with the headers of the toolkit libraries, which the images bring.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from gpu_smoke import calls
from gpu_smoke.layers import driver_init, nvml
from smoke_abi import DRIVER, HEADERS, Call, declared, header_of, misfits, record
from smoke_machine import PACKAGE_ROOT, Machine

CUDA_13, CUDA_12 = "nvidia/cu13/include", "nvidia/cuda_runtime/include"
NVML_CODES = {
    "GS401": "NO_PERMISSION", "GS402": "DRIVER_NOT_LOADED", "GS403": "LIBRARY_NOT_FOUND", "GS404": "GPU_IS_LOST",
    "GS405": "RESET_REQUIRED", "GS406": "LIB_RM_VERSION_MISMATCH", "GS407": "UNKNOWN",
}  # fmt: skip
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not on PATH: it reads NVIDIA's headers")


def headers(folder: str) -> Path:
    """Return a folder of headers that a wheel of the development lock brings."""
    found = [Path(entry) / folder for entry in sys.path if (Path(entry) / folder / "cuda.h").is_file()]
    assert found, f"{folder}/cuda.h is not on sys.path: install the development lock"
    return found[0]


@pytest.fixture
def made(machine: Machine) -> list[Call]:
    """Return the calls of a walk."""
    return record(machine)


def test_every_call_fits_the_headers_of_cuda_13(made: list[Call], tmp_path: Path) -> None:
    assert misfits(made, DRIVER, [headers(CUDA_13)], tmp_path) == []


def test_every_call_of_the_driver_fits_the_header_of_cuda_12(made: list[Call], tmp_path: Path) -> None:
    assert misfits(made, ["cuda.h"], [headers(CUDA_12)], tmp_path) == []


def test_the_walk_makes_every_call_that_is_written_in_the_program(made: list[Call]) -> None:
    pattern = re.compile(rf'"((?:{"|".join(HEADERS)})[A-Z]\w+)"')
    texts = [path.read_text() for path in sorted((PACKAGE_ROOT / "gpu_smoke").rglob("*.py"))]
    written = {name for text in texts for name in pattern.findall(text)} - {*calls.CUDA_ERRORS.values()}
    titles = {"cuBLAS", "cuRAND", "cuSOLVER", "cuSPARSE", "cuFFT", "cuDNN"}
    assert written - titles - {call["name"] for call in made} == set()


def test_names_of_codes_and_attributes(tmp_path: Path) -> None:
    folder = headers(CUDA_13)
    for header, names in {
        "cuda.h": [name for name in calls.CUDA_ERRORS.values() if name.isupper()],
        "cuda_runtime_api.h": [name for name in calls.CUDA_ERRORS.values() if not name.isupper()],
    }.items():
        wanted = {name: code for code, name in calls.CUDA_ERRORS.items() if name in names}
        assert declared(header, [], names, [folder], tmp_path)["constants"] == wanted
    attributes = {
        "major": "COMPUTE_CAPABILITY_MAJOR", "minor": "COMPUTE_CAPABILITY_MINOR", "compute_mode": "COMPUTE_MODE",
        "ecc": "ECC_ENABLED",
    }  # fmt: skip
    names = {f"CU_DEVICE_ATTRIBUTE_{attributes[key]}": number for key, number in driver_init.ATTRIBUTES.items()}
    assert declared("cuda.h", [], names, [folder], tmp_path)["constants"] == names


def test_names_of_nvml(tmp_path: Path) -> None:
    codes = {f"NVML_ERROR_{NVML_CODES[code]}": number for number, code in nvml.CODES.items()}
    slow = [f"nvmlClocksThrottleReason{name}" for name in ("HwSlowdown", "HwThermalSlowdown", "HwPowerBrakeSlowdown")]
    known = declared("nvml.h", [], [*codes, *slow], [headers(CUDA_13)], tmp_path)["constants"]
    assert {name: known[name] for name in codes} == codes
    assert sum(known[name] for name in slow) == nvml.SLOWED


@pytest.mark.parametrize(
    ("call", "position", "change", "words"),
    [
        ("cuMemAlloc_v2", 1, {"size": 4}, "argument 1 of cuMemAlloc_v2"),
        ("cuMemAlloc_v2", 0, {"target": 4}, "argument 0 of cuMemAlloc_v2"),
        ("cuMemFree_v2", 0, {"kind": "pointer", "target": 0}, "argument 0 of cuMemFree_v2"),
        ("cuDeviceGetAttribute", 1, {"value": 1}, "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR or"),
        ("nvmlDeviceGetMemoryInfo", 1, {"target": 16}, "argument 1 of nvmlDeviceGetMemoryInfo"),
        ("cudaMemcpy", 3, {"value": 3}, "cudaMemcpyHostToDevice or cudaMemcpyDeviceToHost"),
    ],
)
def test_a_wrong_call_is_found(
    made: list[Call], tmp_path: Path, call: str, position: int, change: dict[str, object], words: str
) -> None:
    wrong = next(one for one in made if one["name"] == call)
    wrong["arguments"][position].update(change)
    found = misfits([wrong], [header_of(call)], [headers(CUDA_13)], tmp_path)
    assert len(found) == 1, found
    assert words in found[0]


def test_a_missing_argument_is_found(made: list[Call], tmp_path: Path) -> None:
    wrong = next(one for one in made if one["name"] == "cuMemcpyHtoD_v2")
    wrong["arguments"].pop()
    (found,) = misfits([wrong], ["cuda.h"], [headers(CUDA_13)], tmp_path)
    assert found.startswith("cuMemcpyHtoD_v2 takes 3 arguments")
