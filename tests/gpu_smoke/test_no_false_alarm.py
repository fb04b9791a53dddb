"""A good machine passes, and a machine without a GPU does not fail unless one is required."""

from __future__ import annotations

import pytest
from smoke_cases import TF_ROW
from smoke_machine import MODELS, ROW, TOOLKIT, Machine


def _quiet(result, allowed: set[str] = frozenset()) -> None:
    loud = {
        found["code"] for layer in result.report["layers"] for found in layer["findings"] if found["severity"] != "info"
    }
    assert loud <= allowed, f"{sorted(loud)}\n{result.text}"


def test_good_stack_passes_up_to_the_model(machine: Machine) -> None:
    machine.good().python_path.append(MODELS)
    result = machine.run("--require", "model", "--model", "smoke_models:Model")
    assert result.code == 0, result.text + result.errors
    assert {layer["state"] for layer in result.report["layers"]} == {"pass"}
    assert result.report["cause"] is None
    _quiet(result)


def test_a_model_of_a_plain_image_needs_no_framework(machine: Machine) -> None:
    machine.good().image(framework="plain").python_path.append(MODELS)
    result = machine.run("--require", "model", "--model", "smoke_models:Model")
    assert result.code == 0, result.text + result.errors
    assert {layer["name"] for layer in result.report["layers"] if layer["state"] != "pass"} == {"framework"}


@pytest.mark.parametrize("model", ["Close", "Lists"])
def test_model_within_tolerance_passes(machine: Machine, model: str) -> None:
    machine.good().python_path.append(MODELS)
    result = machine.run("--require", "model", "--model", f"smoke_models:{model}")
    assert result.code == 0, result.text + result.errors


def test_tensorflow_on_cuda_12_passes(machine: Machine) -> None:
    machine.good().toolkit(12).image(**TF_ROW).set(RUNTIME_VERSION=12090, CUDNN_CUDART=12090)
    result = machine.run("--require", "framework")
    assert result.code == 0, result.text + result.errors
    assert result.report["framework"] == "tensorflow"
    _quiet(result)


def test_cpu_build_by_choice_is_no_fault_until_required(machine: Machine) -> None:
    machine.good().set(TORCH_CUDA="").row_file.unlink()
    result = machine.run("--require", "gpu")
    assert result.code == 0, result.text
    assert result.layer("framework")["state"] == "skip"
    required = machine.run("--require", "framework")
    assert (required.code, required.report["cause"]["code"]) == (1, "GS802"), required.text


def test_several_gpus_pass(machine: Machine) -> None:
    result = machine.good().set(COUNT=4).run("--require", "gpu", "--gpus", "all")
    assert result.code == 0, result.text
    assert "4 GPUs" in result.layer("collective")["summary"]
    _quiet(result)


def test_no_gpu_and_nothing_required_passes(machine: Machine) -> None:
    result = machine.run("--require", "none")
    assert result.code == 0, result.text
    assert result.report["verdict"] == "pass"
    assert result.layer("kernels")["state"] == "skip"
    assert "Nothing ran on a GPU" in result.text


@pytest.mark.parametrize("level", ["driver", "gpu", "framework"])
def test_no_gpu_never_passes_when_required(machine: Machine, level: str) -> None:
    result = machine.run("--require", level)
    assert result.code == 1, result.text
    assert result.report["cause"]["code"] == "GS101"


def test_host_gpu_that_was_not_given_is_no_fault_when_nothing_is_required(machine: Machine) -> None:
    machine.kernel().toolkit().image().framework().file("/.dockerenv")
    result = machine.run()
    assert result.code == 0, result.text


def test_required_driver_ignores_skips_above_it(machine: Machine) -> None:
    (machine.good().home / "driver" / "libnvidia-ml.so.1").unlink()
    result = machine.run("--require", "driver")
    assert result.code == 0, result.text
    assert machine.run("--require", "gpu").code == 1


def test_legitimate_compat_is_no_alarm(machine: Machine) -> None:
    machine.good().kernel("535.104.05").driver("580.65.06", folder="/usr/local/cuda/compat")
    machine.path.insert(0, machine.path.pop())
    result = machine.image(driver_min=580).run("--require", "gpu")
    assert result.code == 0, result.text
    assert result.layer("compatibility")["version"] == "forward"
    _quiet(result)


def test_newer_driver_is_no_alarm(machine: Machine) -> None:
    machine.good().kernel("610.43.02").driver("610.43.02").set(CUDA_VERSION=13030)
    result = machine.run("--require", "gpu")
    assert result.code == 0, result.text
    assert result.layer("compatibility")["version"] == "backward"
    _quiet(result)


def test_minor_version_compatibility_is_no_alarm(machine: Machine) -> None:
    machine.good().image(cuda="13.2").set(RUNTIME_VERSION=13020)
    result = machine.run("--require", "framework")
    assert result.code == 0, result.text
    assert result.layer("compatibility")["version"] == "minor"
    _quiet(result)


def test_ptx_version_guessed_too_high_is_no_alarm(machine: Machine) -> None:
    machine.good().image(cuda="13.7").set(RUNTIME_VERSION=13070, CUDA_VERSION=13070, PTX_MAX="9.5")
    result = machine.run("--require", "gpu")
    assert result.code == 0, result.text
    assert result.report["facts"]["kernels"]["devices"][0]["stamped"]["version"] == "9.5"
    _quiet(result)


def test_two_cuda_majors_in_one_process_are_no_alarm(machine: Machine) -> None:
    machine.good()
    other = machine.library("toolkit", machine.home / "other", TOOLKIT[12]["cudart"], on_path=False)
    result = machine.variables(FAKE_TORCH_PRELOAD=f"{machine.home}/toolkit/libcudart.so.13:{other}").run(
        "--require", "gpu"
    )
    assert result.code == 0, result.text
    paths = [entry["path"] for entry in result.report["facts"]["framework"]["libraries"]]
    assert {p.rsplit("/", 1)[1] for p in paths} == {"libcudart.so.12", "libcudart.so.13"}
    _quiet(result)


@pytest.mark.parametrize("value", ["0", "0,1", "1,0", "GPU-11111111-1111", "0,-1", " 1 "])
def test_valid_masks_are_no_alarm(machine: Machine, value: str) -> None:
    result = machine.good().set(COUNT=2).variables(CUDA_VISIBLE_DEVICES=value).run("--require", "gpu")
    assert result.code == 0, result.text
    _quiet(result)


def test_satisfied_or_disabled_requirement_is_no_alarm(machine: Machine) -> None:
    machine.good().variables(NVIDIA_REQUIRE_CUDA="cuda>=99 driver>=580,brand=tesla")
    _quiet(machine.run("--require", "gpu"))
    machine.variables(NVIDIA_REQUIRE_CUDA="driver>=590", NVIDIA_DISABLE_REQUIRE="1")
    _quiet(machine.run("--require", "gpu"))


def test_wsl_passes_without_device_files_of_linux(machine: Machine) -> None:
    machine.nodes("dxg").driver("580.65.06", folder="/usr/lib/wsl/lib").nvml().toolkit()
    machine.file("/proc/version", "Linux version 5.15.0-microsoft-standard-WSL2")
    result = machine.run("--require", "gpu")
    assert result.code == 0, result.text
    assert result.report["platform"]["kind"] == "wsl"


def test_sandbox_that_hides_proc_passes_when_the_driver_starts(machine: Machine) -> None:
    machine.good()
    (machine.root / "proc/driver/nvidia/version").unlink()
    for node in ("nvidiactl", "nvidia-uvm", "nvidia0"):
        (machine.root / "dev" / node).unlink()
    result = machine.run("--require", "gpu")
    assert result.code == 0, result.text


def test_image_mode_needs_no_driver(machine: Machine) -> None:
    result = machine.toolkit().image().framework().run("--mode", "image")
    assert result.code == 0, result.text
    assert result.layer("cublas")["state"] == "pass"
    assert result.layer("framework")["state"] == "pass"
    assert result.layer("driver-init")["state"] == "skip"
    assert result.report["driver_floor"] == {"cuda": "13.0", "branch": 580}
    _quiet(result)


@pytest.mark.parametrize("key", sorted(ROW))
def test_every_key_of_the_row_is_optional(machine: Machine, key: str) -> None:
    import json

    machine.good().row_file.write_text(json.dumps({k: v for k, v in ROW.items() if k != key}))
    result = machine.run("--require", "gpu")
    assert result.code == 0, f"without {key}\n{result.text}"
