"""What gpu-smoke calls fits NVIDIA's own headers: functions, arguments, enumerations, codes.

The fakes take what they are given. A number of 4 bytes where 8 are read would show on a GPU alone.
tests/images does the same with the headers of the toolkit libraries, which the images bring.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.gpu_smoke.smoke_abi import DRIVER, HEADERS, Call, header_of, misfits, record, untrue
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


NUMBERS = tomllib.loads((PACKAGE_ROOT / "gpu_smoke" / "findings" / "numbers.toml").read_text())
# What the fakes answer to, and so what the program asks with.
ASKED = {
    "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION": 230, "NVML_GPU_FABRIC_STATE_COMPLETED": 3,
    "NVML_GPU_RECOVERY_ACTION_GPU_RESET": 1, "NVML_GPU_RECOVERY_ACTION_NODE_REBOOT": 2,
    "NVML_GPU_RECOVERY_ACTION_DRAIN_P2P": 3, "NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET": 4,
    "nvmlClocksThrottleReasonHwSlowdown": 0x8, "nvmlClocksThrottleReasonHwThermalSlowdown": 0x40,
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": 0x80,
}  # fmt: skip


def test_numbers_are_those_of_the_headers(tmp_path: Path) -> None:
    for header, source, prefix, more in (
        ("cuda.h", "cuda", "CUDA_ERROR_", {}),
        ("cuda_runtime_api.h", "cuda", "cudaError", {}),
        ("nvml.h", "nvml", "NVML_", ASKED),
    ):
        named = {name: code for code, entry in NUMBERS[source].items() for name in entry["names"].split()}
        claims = [f"{name} == {code}" for name, code in named.items() if name.startswith(prefix)]
        assert len(claims) > 15, f"{header}: {len(claims)} codes"
        claims += [f"{name} == {number}" for name, number in more.items()]
        assert untrue(header, claims, [headers(CUDA_13)], tmp_path) == []


def test_nothing_that_cuda_14_removes_is_called(made: list[Call]) -> None:
    """NVML's header of CUDA 13 marks what the next major release no longer has."""
    text = (headers(CUDA_13) / "nvml.h").read_text()
    deprecated = set(re.findall(r"DEPRECATED\([\d.]+\)\s*nvmlReturn_t DECLDIR (\w+)", text))
    assert "nvmlDeviceGetGpuFabricInfo" in deprecated
    assert deprecated & {call["name"] for call in made} == set()


def test_a_wrong_call_is_found(made: list[Call], tmp_path: Path) -> None:
    wrong = next(one for one in made if one["name"] == "cuMemAlloc_v2")
    wrong["arguments"][1]["size"] = 4
    [found] = misfits([wrong], [header_of("cuMemAlloc_v2")], [headers(CUDA_13)], tmp_path)
    assert "cuMemAlloc_v2" in found
