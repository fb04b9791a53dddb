"""A good machine passes, and a machine without a GPU does not fail unless one is required."""

from __future__ import annotations

import pytest

from tests.gpu_smoke.cases_start import GVISOR, mig, no_nodes
from tests.gpu_smoke.smoke_cases import TF_ROW
from tests.gpu_smoke.smoke_machine import MODELS, ROW, TOOLKIT, Machine
from tests.gpu_smoke.smoke_setups import jax, opens, pci, without
from tests.sampling import every, sampled


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


@pytest.mark.parametrize("model", ["Close", "Lists", "ChangesItsBatch"])
def test_model_that_is_right_on_both_passes(machine: Machine, model: str) -> None:
    machine.good().python_path.append(MODELS)
    result = machine.run("--require", "model", "--model", f"smoke_models:{model}")
    assert result.code == 0, result.text + result.errors


def test_tensorflow_on_cuda_12_passes(machine: Machine) -> None:
    machine.good().toolkit(12).image(**TF_ROW).set(RUNTIME_VERSION=12090, CUDNN_CUDART=12090)
    result = machine.run("--require", "framework")
    assert result.code == 0, result.text + result.errors
    assert result.report["framework"] == "tensorflow"
    _quiet(result)


def test_jax_on_a_plain_image_passes(machine: Machine) -> None:
    """It takes GPU memory as it is needed, too: the stand-in fails where it would take most of it."""
    result = jax(machine).run("--require", "framework", "--framework", "jax")
    assert result.code == 0, result.text + result.errors
    summary = result.layer("framework")["summary"]
    assert summary == "0.10.2, CUDA 13: forward, backward, convolution, bf16 right"
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
    assert result.report["verdict"] == "untested"
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
    result = machine.run("--require", "gpu")
    assert result.code == 0, f"a GPU that computes passes without NVML\n{result.text}"
    _quiet(result, {"GS408"})


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


@pytest.mark.parametrize("value", sampled(["0", "0,1", "1,0", "GPU-11111111-1111", "0,-1", " 1 "], ["1,0"]))
def test_valid_masks_are_no_alarm(machine: Machine, value: str) -> None:
    result = machine.good().set(COUNT=2).variables(CUDA_VISIBLE_DEVICES=value).run("--require", "gpu")
    assert result.code == 0, result.text
    _quiet(result)


@pytest.mark.parametrize(("value", "rc"), sampled([("", 100), ("-1", 0), ("NoDevFiles", 100)], [("-1", 0)]))
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


@pytest.mark.slow
def test_an_allocator_before_every_library_is_no_alarm(machine: Machine) -> None:
    machine.good().library("files", machine.home / "own", "libjemalloc.so.2", on_path=False)
    machine.variables(LD_PRELOAD=f"{machine.home}/own/libjemalloc.so.2", CUDA_LAUNCH_BLOCKING="0")
    result = machine.run("--require", "gpu")
    assert result.code == 0, result.text
    _quiet(result)


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


@pytest.mark.parametrize("key", sampled(sorted(ROW), every(12)))
def test_every_key_of_the_row_is_optional(machine: Machine, key: str) -> None:
    import json

    machine.good().row_file.write_text(json.dumps({k: v for k, v in ROW.items() if k != key}))
    result = machine.run("--require", "gpu")
    assert result.code == 0, f"without {key}\n{result.text}"


HARMLESS = {
    "cdi-pod": lambda m: m.good().variables(KUBERNETES_SERVICE_HOST="10.0.0.1", NVIDIA_VISIBLE_DEVICES="void"),
    "slurm-with-gres": lambda m: (
        opens(m, 1, "nvidia1").nodes("nvidia1").variables(SLURM_JOB_ID="7", SLURM_JOB_GPUS="0")
    ),
    "slurm-by-mask": lambda m: m.good().variables(SLURM_JOB_ID="7", CUDA_VISIBLE_DEVICES="0"),
    "gvisor-with-nvproxy": lambda m: m.good().file("/proc/version", GVISOR),
    "mig-in-a-pod": lambda m: mig(m).file("/dev/nvidia-caps/nvidia-cap66"),
    "volume-mounts": lambda m: (
        m.good()
        .variables(NVIDIA_VISIBLE_DEVICES="/var/run/nvidia-container-devices")
        .file("/var/run/nvidia-container-devices/GPU-11111111-1111-1111-1111-111111111111")
    ),
    "nodes-of-other-slices": lambda m: (
        mig(m).set(OPEN="nvidia-cap67=1").file("/dev/nvidia-caps/nvidia-cap66")
        and m.file("/dev/nvidia-caps/nvidia-cap67")
    ),
    "mig-of-others": lambda m: mig(m).variables(NVIDIA_VISIBLE_DEVICES="MIG-00000064-2222-2222-2222-222222222222"),
    "wide-limit": lambda m: m.good().limits(8 << 30),
    "mps-runs": lambda m: m.good().variables(CUDA_MPS_PIPE_DIRECTORY="/tmp/mps").file("/tmp/mps/control"),
    "exclusive-and-free": lambda m: m.good().set(COMPUTE_MODE=3),
    "fabric-up": lambda m: m.good().set(FABRIC=3),
    "fabric-never-needed": lambda m: m.good().set(FABRIC=0),
    "confidential-and-released": lambda m: m.good().set(CONFIDENTIAL=1, CONFIDENTIAL_READY=1),
    "not-excluded": lambda m: m.good().file(
        "/proc/driver/nvidia/gpus/0000:01:00.0/information", "Device Minor: 0\nGPU Excluded: No\n"
    ),
    "mps-limit-that-suffices": lambda m: m.good().variables(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=10G"),
    "without-uvm": lambda m: without(m, "nvidia-uvm"),
    "nodes-of-the-kernels-number": lambda m: m.good().file("/proc/devices", "195 nvidia\n511 nvidia-uvm\n"),
    "another-card-for-a-guest": lambda m: pci(m.good(), "vfio-pci"),
}


def wsl(m: Machine) -> object:
    """WSL's libcuda.so.1 is a loader, which brings the driver's own from another folder."""
    m.nodes("dxg").toolkit().image().framework().file("/proc/version", "Linux version 5.15.0-microsoft-standard-WSL2")
    m.library("cuda", m.root / "usr/lib/wsl/lib", "libcuda.so.1.1", "libcuda.so.1")
    m.library("nvml", m.root / "usr/lib/wsl/lib", "libnvidia-ml.so.1")
    driver = m.library("cuda", m.root / "usr/lib/wsl/drivers/nv_dispi.inf_amd64", "libcuda.so.1.1", on_path=False)
    return m.set(SHM=8 << 30).variables(FAKE_TORCH_PRELOAD=f"{m.root}/usr/lib/wsl/lib/libcuda.so.1:{driver}")


def jetson(m: Machine) -> object:
    """Jetson: a folder of nodes, no NVML, no kernel module's version, memory shared with the machine."""
    (m.root / "dev/nvgpu/igpu0").mkdir(parents=True)
    m.driver().toolkit().image().framework().set(INTEGRATED=1, FREE_MIB=900, LEAK=1)
    return m.set(SHM=8 << 30)


def several_without_nccl(m: Machine) -> object:
    m.good().image(framework="plain", nccl="", libraries=["cublas"]).set(COUNT=2)
    return (m.home / "toolkit/libnccl.so.2").unlink()


def other_runtime_on_the_path(m: Machine) -> object:
    """The loader finds a runtime that this driver is too old for; torch brings its own."""
    m.good().image(framework="torch", cuda="").set(CUDA_VERSION=12080, RUNTIME_RC=35, TORCH_CUDA="12.8")
    own = m.library("toolkit", m.home / "wheel", "libcudart.so.12", on_path=False)
    return (
        m.kernel("570.86.10").driver("570.86.10").image(cuda="", driver_min=570).variables(FAKE_TORCH_PRELOAD=str(own))
    )


HARMLESS |= {
    "slurm-own-gpu-of-two": lambda m: m.good().nodes("nvidia1").set(COUNT=1, NVML_COUNT=2).variables(
        SLURM_JOB_ID="7", SLURM_JOB_GPUS="1", CUDA_VISIBLE_DEVICES="1"),
    "other-jobs-node-by-mode": lambda m: opens(m, 13, "nvidia1").nodes("nvidia1").variables(
        SLURM_JOB_ID="7", SLURM_JOB_GPUS="0"),
    "other-pods-node-by-mode": lambda m: opens(m, 13, "nvidia1").nodes("nvidia1").variables(
        KUBERNETES_SERVICE_HOST="10.0.0.1"),
    "mask-ended-by-minus-one": lambda m: m.good().nodes("nvidia1").set(COUNT=1, NVML_COUNT=2).variables(
        CUDA_VISIBLE_DEVICES="0,-1,1"),
    "wsl-pair": wsl,
    "jetson": jetson,
    "several-gpus-without-nccl": several_without_nccl,
    "neighbour": lambda m: m.good().set(NEIGHBOUR=300, FREE_MIB=60 << 10),
    "neighbour-takes-as-much-as-the-test": lambda m: m.good().set(NEIGHBOUR=64, FREE_MIB=60 << 10),
    "display": lambda m: m.good().set(NEIGHBOUR=3),
    "shared-memory-of-gh200": lambda m: m.good().set(HOST_TABLES=1, FREE_MIB=900),
    "other-runtime-on-the-path": other_runtime_on_the_path,
    "container-by-its-manager": lambda m: no_nodes(m).file("/run/systemd/container", "docker\n"),
    "container-by-its-root": lambda m: no_nodes(m).file(
        "/proc/self/mountinfo", "1 0 0:50 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/u\n"),
}  # fmt: skip
ALLOWED = {"container-by-its-manager": {"GS102"}, "container-by-its-root": {"GS102"}}


@pytest.mark.parametrize("kind", sampled(HARMLESS, every(15)))
def test_an_explanation_without_a_failure_is_no_alarm(machine: Machine, kind: str) -> None:
    """What explains a failure is not a failure where the driver starts."""
    HARMLESS[kind](machine)
    result = machine.run("--require", "none" if kind in ALLOWED else "gpu")
    assert result.code == 0, result.text
    _quiet(result, ALLOWED.get(kind, set()))


def test_small_shm_is_a_warning_where_the_all_reduce_passed(machine: Machine) -> None:
    result = machine.good().set(COUNT=8, SHM=64 << 20).run("--require", "gpu")
    assert result.code == 0, result.text
    _quiet(result, {"GS901"})
