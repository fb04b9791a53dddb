"""Rules as tables, each row a walk over a pretended machine: versions, masks, architectures, results."""

from __future__ import annotations

import pytest

from tests.gpu_smoke.smoke_machine import MODELS, Machine
from tests.gpu_smoke.smoke_setups import jetson, mig

UUID = "-1111-1111-1111-111111111111"


@pytest.mark.parametrize(
    ("runtime", "driver", "compat", "kind", "words"),
    [
        (13000, 13000, "", "backward", "backward, proven by cuInit and the kernels"),
        (12090, 13000, "", "backward", ""),
        (12090, 12020, "", "minor", ""),
        (13020, 13000, "", "minor", "minor, proven by cuInit and PTX 4.2 alone"),
        (13000, 12090, "", "broken", "broken by the versions, yet the kernels ran"),
        (12000, 11080, "", "broken", ""),
        (13000, 13000, "590.44.01", "forward", ""),
        (13020, 13000, "590.44.01", "forward", ""),
        (14000, 13000, "590.44.01", "broken", ""),
    ],
)
def test_compatibility(machine: Machine, runtime: int, driver: int, compat: str, kind: str, words: str) -> None:
    machine.good().image(cuda="").set(RUNTIME_VERSION=runtime, CUDA_VERSION=driver, PTX_MAX=f"{driver // 1000 - 4}.0")
    layer = machine.driver(compat or "580.65.06").run("--require", "gpu").layer("compatibility")
    assert layer["version"] == kind, layer
    assert words in layer["summary"], layer["summary"]


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [("LAUNCH_RC", 700, "backward by the versions, no kernel ran"), ("RUNTIME_RC", 36, "refuses the driver (36)")],
)
def test_compatibility_is_not_claimed_without_proof(machine: Machine, answer: str, code: int, words: str) -> None:
    layer = machine.good().image(cuda="").set(**{answer: code}).run("--require", "gpu").layer("compatibility")
    assert words in layer["summary"], layer


# The mask, how many GPUs CUDA lists (of the two that NVML lists), and the finding with words of its fix.
MASKS = [
    ("0,-1,1", 1, "", ""), (" 0 , 1 ", 2, "", ""), ("1,0", 2, "", ""), ("GPU-11111111,GPU-22222222", 2, "", ""),
    ("0,2", 1, "GS305", "'2' does not exist"), ("2", 0, "GS305", "'2' does not exist"),
    ("0,0", 0, "GS305", "'0' is named twice"), ("GPU-1111,GPU-11111111", 0, "GS305", "is named twice"),
    ("GPU-cccc", 0, "GS305", "'GPU-cccc' does not exist"), ("all", 0, "GS305", "'all' does not exist"),
    ("", 0, "GS304", "it is ''"), ("NoDevFiles", 0, "GS304", "it is 'NoDevFiles'"),
    ("0,GPU-22222222", 0, "GS328", "nvidia-modprobe -u"),
]  # fmt: skip


@pytest.mark.parametrize(("mask", "count", "code", "fix"), MASKS)
def test_mask(machine: Machine, mask: str, count: int, code: str, fix: str) -> None:
    machine.good().nodes("nvidia1").set(COUNT=count, NVML_COUNT=2, CUINIT_RC=0 if count else 100)
    result = machine.variables(CUDA_VISIBLE_DEVICES=mask).run("--require", "gpu")
    assert result.code == (0 if count else 1), result.text
    found = [one for one in result.layer("driver-init")["findings"] if one["severity"] != "info"]
    assert [one["code"] for one in found] == [code] * bool(code), result.text
    assert not found or fix in found[0]["fix"], found


@pytest.mark.parametrize(
    ("archs", "capability", "covered"),
    [
        ("sm_80", "8.0", True), ("sm_80", "8.9", True), ("sm_86", "8.0", False), ("sm_80", "9.0", False),
        ("compute_90", "12.0", True), ("compute_90", "8.9", False), ("sm_90a", "9.0", True),
        ("sm_100a", "10.3", False), ("sm_100f", "10.3", True), ("sm_120", "12.1", True),
        ("sm_50 sm_86 sm_90", "12.0", False), ("gfx90a nonsense sm_", "9.0", False),
    ],
)  # fmt: skip
def test_architectures_of_a_framework(machine: Machine, archs: str, capability: str, covered: bool) -> None:
    machine.good().image(compute_capabilities={}).set(CC=capability, TORCH_ARCHS=archs)
    result = machine.run("--require", "framework")
    assert (result.code, "GS804" in result.codes()) == ((0, False) if covered else (1, True)), result.text


@pytest.mark.parametrize(
    ("on_cpu", "on_gpu", "same"),
    [
        ("[1.0]", "[1.0005]", True), ("[1.0]", "[1.002]", False), ("[(1.0, 2.0)]", "[[1.0, 2.0]]", True),
        ("[{'a': 'x', 'b': [1.0, 2.0]}]", "[{'a': 'x', 'b': [1.0, 2.0]}]", True),
        ("[{'a': 'x'}]", "[{'a': 'y'}]", False), ("[{'a': 1}]", "[{'b': 1}]", False),
        ("[[1.0, 2.0]]", "[[1.0]]", False),
        ("[nan]", "[nan]", True), ("[nan]", "[1.0]", False), ("[inf]", "[inf]", True), ("[inf]", "[1.0]", False),
        ("[True]", "[1.0]", False), ("['a']", "[1.0]", False), ("[None]", "[None]", True),
    ],
)  # fmt: skip
def test_results_of_a_model(machine: Machine, on_cpu: str, on_gpu: str, same: bool) -> None:
    machine.good().variables(GIVEN_CPU=on_cpu, GIVEN_CUDA=on_gpu).python_path.append(MODELS)
    result = machine.run("--require", "model", "--model", "smoke_models:Given")
    assert (result.code, "GS912" in result.codes()) == ((0, False) if same else (1, True)), result.text


# What NVML asks for with a GPU whose context fails, and what the fix then says.
RECOVERIES = {
    1: "`nvidia-smi --gpu-reset`", 2: "Reboot the node", 3: "stop every program that uses NVLink",
    4: "give the GPU no new work", 5: "Restart nvidia-imex", 6: "reset its PCI bus", 7: "Switch the whole machine off",
}  # fmt: skip


@pytest.mark.parametrize("action", RECOVERIES)
def test_recovery(machine: Machine, action: int) -> None:
    cause = machine.good().set(RECOVERY=action, CTX_RC=999).run("--require", "gpu").report["cause"]
    assert cause["code"] == "GS418", cause
    assert RECOVERIES[action].lower() in cause["fix"].lower(), cause


KERNEL_LIST = ("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Device Minor: 5\n")
# A machine, its GPUs as numbers of CUDA, NVML and /dev/nvidiaN, and what the report says of them.
GPUS = {
    "masked": (lambda m: m.good().set(COUNT=2, ORDER="10", MINORS="36", KERNEL_WRONG=1, ECC=3), [(1, 0, 3), (0, 1, 6)],
               [f"GPU 0 (host's GPU 6, GPU-22222222{UUID}", f"GPU 0 (host's GPU 3, GPU-11111111{UUID}"]),
    "mig": (lambda m: mig(m).file("/dev/nvidia-caps/nvidia-cap66") and m, [(0, 0, 0)],
            ["MIG-00000064-2222-2222-2222-222222222222", "MIG on, 1 instances visible"]),
    "without-nvml": (lambda m: m.good().set(NVML_RC=9) and m.file(*KERNEL_LIST) and m, [(0, None, 5)],
                     ["0000:01:00.0"]),
    "worn": (lambda m: m.good().set(PERSISTENCE=0, COMPUTE_MODE=3, FABRIC=2, ECC=4, SLOWED=0x45, ROWS_PENDING=1),
             [(0, 0, 0)], ["persistence mode off", "compute mode exclusive", "fabric in progress", "1 rows pending",
                           "4 uncorrected memory errors", "clocks: power limit, hardware thermal limit (0x44)"]),
    "lost": (lambda m: m.good().set(NVML_DEVICE_RC=15), [(0, 0, None)], ["NVML gives 15 (NVML_ERROR_GPU_IS_LOST)"]),
    "jetson": (lambda m: jetson(m).nvml(), [(0, 0, 0)], ["Fake H100"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", GPUS)
def test_which_gpu(machine: Machine, kind: str) -> None:
    setup, numbers, words = GPUS[kind]
    report = setup(machine).run("--require", "gpu").report
    assert [(one["cuda"], one["nvml"], one["host"]) for one in report["gpus"]] == numbers
    assert not [word for word in words if word not in str(report)], report["gpus"]


def test_a_healthy_idle_gpu_has_no_notes(machine: Machine) -> None:
    result = machine.good().set(COUNT=2, SLOWED=1, FABRIC=0).run("--require", "gpu")
    assert [one["notes"] for one in result.report["gpus"]] == [[], []]
    assert all(one["uuid"] in result.text and one["bus"] in result.text for one in result.report["gpus"])
