"""A good machine passes, and a machine without a GPU does not fail unless one is required."""

from __future__ import annotations

import textwrap

import pytest

from tests.gpu_smoke.cases_start import GVISOR, no_nodes
from tests.gpu_smoke.smoke_machine import PACKAGE_ROOT, TOOLKIT, Machine, Result
from tests.gpu_smoke.smoke_setups import (
    base_cc,
    jax,
    jetson,
    mig,
    models,
    nobody_compiles,
    opens,
    tensorflow,
    triton,
    unset,
    without,
    wsl,
)
from tests.runtime.kinds import KINDS
from tests.sampling import sampled


def loud(result: Result) -> set[str]:
    """Return the findings that are more than information."""
    assert result.report, result.text + result.errors
    return {found["code"] for layer in result.report["layers"] for found in layer["findings"]
            if found["severity"] != "info"}  # fmt: skip


def compat_that_fits(m: Machine) -> object:
    """A newer libcuda than the kernel module's, in a compat folder, on a machine that needs it."""
    m.good().kernel("535.104.05").driver("580.65.06", folder="/usr/local/cuda/compat").image(driver_min=580)
    return m.path.insert(0, m.path.pop())


def two_majors(m: Machine) -> object:
    """torch's process has a runtime of CUDA 12 and one of CUDA 13: each has its own soname."""
    other = m.good().library("toolkit", m.home / "other", TOOLKIT[12]["cudart"], on_path=False)
    return m.variables(FAKE_TORCH_PRELOAD=f"{m.home}/toolkit/libcudart.so.13:{other}")


def allocator(m: Machine) -> object:
    """An allocator before every library, as services have it."""
    m.good().library("files", m.home / "own", "libjemalloc.so.2", on_path=False)
    return m.variables(LD_PRELOAD=f"{m.home}/own/libjemalloc.so.2", CUDA_LAUNCH_BLOCKING="0")


def compiled_before(m: Machine) -> object:
    """No compiler, and Triton's module is in its cache."""
    m.file("/cache/KEY/cuda_utils.cpython-313-x86_64-linux-gnu.so")
    return nobody_compiles(m.good()).variables(TRITON_CACHE_DIR=str(m.root / "cache"))


HARMLESS = {
    "cdi-pod": lambda m: m.good().variables(KUBERNETES_SERVICE_HOST="10.0.0.1", NVIDIA_VISIBLE_DEVICES="void"),
    "slurm-with-gres": lambda m: (
        opens(m, 1, "nvidia1").nodes("nvidia1").variables(SLURM_JOB_ID="7", SLURM_JOB_GPUS="0")
    ),
    "gvisor-with-nvproxy": lambda m: m.good().file("/proc/version", GVISOR),
    "mig-in-a-pod": lambda m: mig(m).file("/dev/nvidia-caps/nvidia-cap66"),
    "volume-mounts": lambda m: (
        m.good()
        .variables(NVIDIA_VISIBLE_DEVICES="/var/run/nvidia-container-devices")
        .file("/var/run/nvidia-container-devices/GPU-11111111-1111-1111-1111-111111111111")
    ),
    "broken-gpu-of-others": lambda m: m.good().set(NVML_COUNT=2, NVML_DEVICE_RC=15, NVML_BAD=1).file("/.dockerenv")
        and m.variables(NVIDIA_VISIBLE_DEVICES="0"),
    "mps-runs": lambda m: m.good().variables(CUDA_MPS_PIPE_DIRECTORY="/tmp/mps").file("/tmp/mps/control"),
    "exclusive-and-free": lambda m: m.good().set(COMPUTE_MODE=3),
    "fabric-up": lambda m: m.good().set(FABRIC=3),
    "without-uvm": lambda m: without(m, "nvidia-uvm"),
    "compat-that-fits": compat_that_fits,
    "newer-driver": lambda m: m.good().kernel("610.43.02").driver("610.43.02").set(CUDA_VERSION=13030),
    "two-majors": two_majors,
    "allocator": allocator,
    "prebuilt-module": lambda m: base_cc(m.good()),
    "compiler": lambda m: triton(m.good()),
    "compiled-before": compiled_before,
    "slurm-own-gpu-of-two": lambda m: m.good().nodes("nvidia1").set(COUNT=1, NVML_COUNT=2).variables(
        SLURM_JOB_ID="7", SLURM_JOB_GPUS="1", CUDA_VISIBLE_DEVICES="1"),
    "other-jobs-node-by-mode": lambda m: opens(m, 13, "nvidia1").nodes("nvidia1").variables(
        SLURM_JOB_ID="7", SLURM_JOB_GPUS="0"),
    "wsl-pair": wsl,
    "jetson": jetson,
    "neighbour": lambda m: m.good().set(NEIGHBOUR=300, FREE_MIB=60 << 10),
    "shared-memory-of-gh200": lambda m: m.good().set(HOST_TABLES=1, FREE_MIB=900),
    "container-by-its-root": lambda m: no_nodes(m).file(
        "/proc/self/mountinfo", "1 0 0:50 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/u\n"),
}  # fmt: skip
GPU = ("--require", "gpu")
# The machines that are asked for something else than `--require gpu`.
ASKED = {
    "container-by-its-root": (("--require", "none"), {"GS102"}),
    "broken-gpu-of-others": (GPU, {"GS404", "GS121"}),
}
FRAMEWORKS = {
    "torch": (lambda m: m.good(), ()),
    "torch-of-a-newer-minor": (lambda m: m.good().image(cuda="13.2").set(RUNTIME_VERSION=13020), ()),
    "tensorflow": (tensorflow, ()),
    "jax": (jax, ("--framework", "jax")),
}


@pytest.mark.parametrize("kind", HARMLESS)
def test_an_explanation_without_a_failure_is_no_alarm(machine: Machine, kind: str) -> None:
    """What explains a failure is not a failure where the driver starts."""
    HARMLESS[kind](machine)
    arguments, allowed = ASKED.get(kind, (GPU, set()))
    result = machine.run(*arguments)
    assert (result.code, loud(result)) == (0, allowed), result.text


@pytest.mark.parametrize("kind", FRAMEWORKS)
def test_a_framework_passes(machine: Machine, kind: str) -> None:
    """JAX takes GPU memory as it is needed, too: the stand-in fails where it would take most of it."""
    setup, arguments = FRAMEWORKS[kind]
    setup(machine)
    result = machine.run("--require", "framework", *arguments)
    assert (result.code, loud(result)) == (0, set()), result.text
    assert "forward, backward, convolution, bf16 right" in result.layer("framework")["summary"]


@pytest.mark.parametrize("model", ["Model", "ChangesItsBatch"])
def test_a_model_that_is_right_on_both_passes(machine: Machine, model: str) -> None:
    models(machine)
    result = machine.run("--require", "model", "--model", f"smoke_models:{model}")
    assert (result.code, result.report["cause"], loud(result)) == (0, None, set()), result.text
    assert {layer["state"] for layer in result.report["layers"]} == {"pass"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_with_types_is_called_as_a_service_calls_it(machine: Machine, kind: str) -> None:
    machine.good().image(framework="plain").python_path += [PACKAGE_ROOT.parent / "runtime" / "src"]
    (machine.home / "own.py").write_text(textwrap.dedent(KINDS[kind]))
    result = machine.run("--require", "model", "--model", "own:Model")
    assert result.code == 0, result.text
    assert {layer["name"] for layer in result.report["layers"] if layer["state"] != "pass"} == {"framework"}


@pytest.mark.parametrize("level", sampled(["none", "driver", "gpu", "framework"], ["none", "gpu"]))
def test_no_gpu_passes_only_where_none_is_required(no_libraries: Machine, level: str) -> None:
    result = no_libraries.run("--require", level)
    if level == "none":
        assert (result.code, result.report["verdict"]) == (0, "untested"), result.text
        assert "Nothing ran on a GPU" in result.text
    else:
        assert (result.code, result.report["cause"]["code"]) == (1, "GS101"), result.text


def test_a_cpu_build_by_choice_is_no_fault_until_required(machine: Machine) -> None:
    nobody_compiles(machine.good().set(TORCH_CUDA="")).row_file.unlink()
    result = machine.run(*GPU)
    assert (result.code, result.layer("framework")["state"]) == (0, "skip"), result.text
    assert not result.codes() & {"GS812", "GS813"}, "a CPU build is not asked what torch.compile needs"
    required = machine.run("--require", "framework")
    assert (required.code, required.report["cause"]["code"]) == (1, "GS802"), required.text


def test_a_gpu_that_computes_passes_without_nvml(machine: Machine) -> None:
    unset(machine.good(), "driver/libnvidia-ml.so.1")
    for level in ("driver", "gpu"):
        result = machine.run("--require", level)
        assert (result.code, loud(result)) == (0, {"GS408"}), result.text


@pytest.mark.parametrize(("value", "rc"), [("", 100), ("-1", 0), ("NoDevFiles", 100)])
def test_who_hides_every_gpu_and_asks_for_none_gets_no_fault(machine: Machine, value: str, rc: int) -> None:
    """CUDA_VISIBLE_DEVICES="" is how people ask for the CPU; where a GPU is asked for, it stays the cause."""
    machine.good().set(COUNT=0, NVML_COUNT=1, CUINIT_RC=rc, RUNTIME_RC=100, TORCH_COUNT=0)
    machine.variables(CUDA_VISIBLE_DEVICES=value)
    result = machine.run("--require", "none")
    assert (result.code, result.report["verdict"]) == (0, "untested"), result.text
    assert result.finding("GS304")["severity"] == "warning"
    for level in ("driver", "gpu"):
        result = machine.run("--require", level)
        assert (result.code, result.report["cause"]["code"]) == (1, "GS304"), result.text


def test_a_broken_driver_is_a_fault_though_every_gpu_is_hidden(machine: Machine) -> None:
    machine.good().set(COUNT=0, CUINIT_RC=999).variables(CUDA_VISIBLE_DEVICES="")
    result = machine.run("--require", "none")
    assert (result.code, result.report["cause"]["code"]) == (1, "GS312"), result.text


@pytest.mark.parametrize("setup", [base_cc, triton, lambda m: m], ids=["prebuilt", "compiler", "no-triton"])
def test_image_mode_needs_no_driver(machine: Machine, setup: object) -> None:
    setup(machine.toolkit().image().framework())
    result = machine.run("--mode", "image")
    assert (result.code, loud(result)) == (0, set()), result.text
    states = {layer["name"]: layer["state"] for layer in result.report["layers"]}
    assert (states["cublas"], states["framework"], states["driver-init"]) == ("pass", "pass", "skip")
    assert result.report["driver_floor"] == {"cuda": "13.0", "branch": 580}


def test_small_shm_is_a_warning_where_the_all_reduce_passed(machine: Machine) -> None:
    result = machine.good().set(COUNT=8, SHM=64 << 20).run(*GPU)
    assert (result.code, loud(result)) == (0, {"GS901"}), result.text
    assert "8 GPUs" in result.layer("collective")["summary"]
