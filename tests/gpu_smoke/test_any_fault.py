"""Whatever /proc, the environment, image.json or a library says: the walk ends, and its output is valid."""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as ElementTree

import jsonschema
import pytest

from tests.gpu_smoke.smoke_machine import PACKAGE_ROOT, ROW, Machine

SCHEMA = json.loads((PACKAGE_ROOT / "gpu_smoke" / "report.schema.json").read_text())
WIDTH = 80  # of a terminal
FAULTS = ["segv", "abort", "exit", "talk", "close", "hang"]
PLACES = ["load", "cuInit", "cuDriverGetVersion", "cuModuleLoadData", "cuCtxSynchronize"]


def _valid(machine: Machine, timeout_s: int = 30) -> dict:
    junit = machine.home / "junit.xml"
    result = machine.run("--require", "gpu", "--timeout", str(timeout_s), "--junit", str(junit))
    assert result.code in (0, 1), f"exit code {result.code}\n{result.text}\n{result.errors}"
    assert "Traceback" not in result.errors, result.errors
    jsonschema.validate(result.report, SCHEMA)
    suite, report = ElementTree.parse(junit).getroot().find("testsuite"), result.report
    failing = [layer for layer in report["layers"] if layer["state"] == "fail" or layer["name"] in report["unmet"]]
    counted = [int(suite.get("tests")), int(suite.get("failures"))]
    assert counted == [len(suite.findall("testcase")), len(suite.findall(".//failure"))]
    assert counted == [len(report["layers"]), len(failing)], "a required layer that does not pass fails in JUnit too"
    assert not [line for line in result.text.splitlines() if len(line) > WIDTH or "\x1b" in line], result.text
    assert (result.report["cause"] is None) == (result.code == 0)
    assert "GS004" not in result.codes(), f"a rule is missing\n{result.text}"
    return result.report


def test_a_machine_without_a_gpu(machine: Machine) -> None:
    _valid(machine)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_library_anywhere(machine: Machine, fault: str, place: str) -> None:
    report = _valid(machine.good().set(FAULT=f"{fault}:{place}"), timeout_s=2 if fault == "hang" else 30)
    if fault == "talk":
        assert report["verdict"] == "pass", "noise on every file descriptor is not a fault"
    else:
        codes = {f["code"] for layer in report["layers"] for f in layer["findings"]}
        assert codes & {"GS001", "GS002", "GS003"}, f"{fault} in {place}: {codes}"
        assert report["verdict"] == "fail"


NUMBERS = [0, 1, -1, 3, 100, 2**31 - 1, -(2**31), 12, 1000, 999999]
ANSWERS = ["CUINIT_RC", "COUNT", "COUNT_RC", "DEVICE_RC", "CUDA_VERSION", "CTX_RC", "MODULE_RC", "SYNC_RC", "ALLOC_RC",
           "RUNTIME_VERSION", "RUNTIME_RC", "RUNTIME_DRIVER", "CUDNN_VERSION", "CUDNN_CUDART", "CUBLAS_VERSION",
           "NVML_RC", "NVML_COUNT", "NVML_COUNT_RC", "NVML_DEVICE_RC", "FREE_MIB", "MIG", "ECC",
           "RECOVERY", "FABRIC_HEALTH"]  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_any_library_answers(machine: Machine, seed: int) -> None:
    dice = random.Random(seed)
    chosen = {name: dice.choice(NUMBERS) for name in dice.sample(ANSWERS, 6)}
    if abs(chosen.get("FREE_MIB", 0)) > 2**20:
        del chosen["FREE_MIB"]
    machine.good().set(**chosen, NAME=dice.choice(["garbage", "", "x" * 300]), CC=dice.choice(["9.0", "-1.7", "99.99"]))
    _valid(machine)


WORDS = ["", ":", "/", "..", "\x1b[2J", "é" * 50, "\udcff", "%s%n", "{path}", "<!--", "]]>", "a" * 5000, "-1", "\n\n"]
VARIABLES = ["CUDA_VISIBLE_DEVICES", "NVIDIA_REQUIRE_CUDA", "NVIDIA_VISIBLE_DEVICES", "CUDA_INJECTION64_PATH",
             "container", "NVIDIA_DRIVER_CAPABILITIES",
             "KUBERNETES_SERVICE_HOST", "TERM", "GPU_SMOKE_IMAGE_JSON"]  # fmt: skip
FILES = ["/proc/driver/nvidia/version", "/proc/version", "/proc/modules", "/proc/1/cgroup", "/proc/devices",
         "/proc/self/mountinfo", "/etc/ld.so.conf.d/x.conf"]  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_any_environment_and_files(machine: Machine, seed: int) -> None:
    dice = random.Random(1000 + seed)
    machine.good()
    for name in dice.sample(VARIABLES, 6):
        machine.variables(**{name: dice.choice(WORDS)})
    noise = bytes(dice.randrange(256) for _ in range(200))
    for name in FILES:
        if dice.random() < 0.6:
            texts = [b"", noise, b"NVRM version: " + noise, b"\n" * 999, b"/\x00/x\n", b"7f00-7f01 r-xp 0 0 0 " + noise]
            machine.file(name).write_bytes(dice.choice(texts))
    if dice.random() < 0.5:
        key = dice.choice(sorted(ROW))
        machine.image(**{key: dice.choice([None, [], {}, 7, -1, "x", [None], {"sass": 3}, 10**30, "9" * 99])})
    _valid(machine)
