"""What gpu-smoke calls fits NVIDIA's own headers: functions, arguments, enumerations, codes.

The fakes take what they are given. A number of 4 bytes where 8 are read would show on a GPU alone.
tests/images does the same with the headers of the toolkit libraries, which the images bring.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from gpu_smoke import explanations, numbers
from gpu_smoke.layers import driver_init, nvml, nvml_device

from tests.gpu_smoke.smoke_abi import DRIVER, HEADERS, Call, declared, header_of, misfits, record
from tests.gpu_smoke.smoke_machine import PACKAGE_ROOT, Machine

CUDA_13, CUDA_12 = "nvidia/cu13/include", "nvidia/cuda_runtime/include"
pytestmark = pytest.mark.needs("gcc", "g++")  # it reads NVIDIA's headers


def headers(folder: str) -> Path:
    """Return a folder of headers that a wheel of the development lock brings."""
    found = [Path(entry) / folder for entry in sys.path if (Path(entry) / folder / "cuda.h").is_file()]
    assert found, f"{folder}/cuda.h is not on sys.path: install the development lock"
    return found[0]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory, fakes: dict[str, Path]) -> str:
    """Return the calls of a walk, as text that no test can change for another."""
    return json.dumps(record(Machine(tmp_path_factory.mktemp("recorded"), fakes)))


@pytest.fixture
def made(machine: Machine, recorded: str) -> list[Call]:
    """Return the calls of a walk; ``machine`` skips where fakes cannot hide a real driver."""
    return json.loads(recorded)


def test_every_call_fits_the_headers_of_cuda_13(made: list[Call], tmp_path: Path) -> None:
    assert misfits(made, DRIVER, [headers(CUDA_13)], tmp_path) == []


def test_every_call_of_the_driver_fits_the_header_of_cuda_12(made: list[Call], tmp_path: Path) -> None:
    assert misfits(made, ["cuda.h"], [headers(CUDA_12)], tmp_path) == []


def test_the_walk_makes_every_call_that_is_written_in_the_program(made: list[Call]) -> None:
    pattern = re.compile(rf'"((?:{"|".join(HEADERS)})[A-Z]\w+)"')
    texts = [path.read_text() for path in sorted((PACKAGE_ROOT / "gpu_smoke").rglob("*.py"))]
    written = {name for text in texts for name in pattern.findall(text)}
    titles = {"cuBLAS", "cuRAND", "cuSOLVER", "cuSPARSE", "cuFFT", "cuDNN"}
    assert written - titles - {call["name"] for call in made} == set()


def test_names_of_codes_and_attributes(tmp_path: Path) -> None:
    folder = headers(CUDA_13)
    names = {name: code for code, entry in numbers.tables()["cuda"].items() for name in entry.names}
    for header, prefix in (("cuda.h", "CUDA_ERROR_"), ("cuda_runtime_api.h", "cudaError")):
        wanted = {name: code for name, code in names.items() if name.startswith(prefix)}
        assert len(wanted) > 40
        assert declared(header, [], wanted, [folder], tmp_path)["constants"] == wanted
    attributes = {
        "major": "COMPUTE_CAPABILITY_MAJOR", "minor": "COMPUTE_CAPABILITY_MINOR", "compute_mode": "COMPUTE_MODE",
        "ecc": "ECC_ENABLED", "integrated": "INTEGRATED", "processors": "MULTIPROCESSOR_COUNT",
        "host_tables": "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES",
    }  # fmt: skip
    wanted = {f"CU_DEVICE_ATTRIBUTE_{attributes[key]}": number for key, number in driver_init.ATTRIBUTES.items()}
    assert declared("cuda.h", [], wanted, [folder], tmp_path)["constants"] == wanted


def test_names_of_nvml(tmp_path: Path) -> None:
    codes = {entry.names[0]: number for number, entry in numbers.tables()["nvml"].items()}
    assert {*nvml.CODES, *explanations.BROKEN} <= {*numbers.tables()["nvml"]}
    slow = [f"nvmlClocksThrottleReason{name}" for name in ("HwSlowdown", "HwThermalSlowdown", "HwPowerBrakeSlowdown")]
    known = declared("nvml.h", [], [*codes, *slow], [headers(CUDA_13)], tmp_path)["constants"]
    assert {name: known[name] for name in codes} == codes
    actions = ("NONE", "GPU_RESET", "NODE_REBOOT", "DRAIN_P2P", "DRAIN_AND_RESET")
    wanted = {f"NVML_GPU_RECOVERY_ACTION_{name}": number for number, name in enumerate(actions)}
    wanted |= {"NVML_FI_DEV_GET_GPU_RECOVERY_ACTION": nvml_device.RECOVERY_FIELD, "NVML_GPU_FABRIC_STATE_COMPLETED": 3}
    assert declared("nvml.h", [], wanted, [headers(CUDA_13)], tmp_path)["constants"] == wanted
    assert {*range(1, 5)} <= {*numbers.RECOVERY}
    assert sum(known[name] for name in slow) == nvml_device.SLOWED


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
