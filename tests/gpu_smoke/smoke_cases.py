"""The injected failures: what is broken, and which cause, layer and fix the report must name."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from smoke_machine import MODELS, Machine

GIB = 1 << 30


@dataclass(frozen=True)
class Case:
    """One injected failure. ``number`` is the failure's number in the project's list of common failures, or ""."""

    name: str
    what: str
    setup: Callable[[Machine], object]
    code: str
    layer: str
    fix: str
    number: str = ""
    args: tuple[str, ...] = ("--require", "gpu")
    exit: int = 1
    cause: bool = True


def _file(kind: str) -> Callable[[Machine], object]:
    def setup(m: Machine) -> object:
        m.good()
        target = m.home / "driver" / "libcuda.so.1"
        target.unlink()
        return BROKEN[kind](target, m)

    return setup


def _truncate(target: Path, m: Machine) -> object:
    return target.write_bytes(m.fakes["cuda"].read_bytes()[:2000])


def _foreign(target: Path, m: Machine) -> object:
    data = bytearray(m.fakes["cuda"].read_bytes())
    data[18:20] = (243).to_bytes(2, "little")
    return target.write_bytes(data)


BROKEN: dict[str, Callable[[Path, Machine], object]] = {
    "empty": lambda target, m: target.write_bytes(b""),
    "directory": lambda target, m: target.mkdir(),
    "truncated": _truncate,
    "text": lambda target, m: target.write_text("version https://git-lfs.github.com/spec/v1\n" * 9),
    "foreign": _foreign,
    "dangling": lambda target, m: target.symlink_to("libcuda.so.570.00"),
    "foreign-name": lambda target, m: target.write_bytes(m.fakes["nvml"].read_bytes()),
}


def _gke(m: Machine) -> object:
    m.good().driver(folder="/usr/local/nvidia/lib64", on_path=False)
    (m.home / "driver" / "libcuda.so.1").unlink()
    return m.variables(KUBERNETES_SERVICE_HOST="10.0.0.1")


def _stale_cache(m: Machine) -> object:
    m.good().driver(folder="/usr/lib64", on_path=False)
    (m.home / "driver" / "libcuda.so.1").unlink()
    return m.file("/.dockerenv")


def _no_libcuda(m: Machine, nvml: bool = False) -> Machine:
    m.good()
    (m.home / "driver" / "libcuda.so.1").unlink()
    if not nvml:
        (m.home / "driver" / "libnvidia-ml.so.1").unlink()
    m.file("/.dockerenv")
    return m


def _compat(m: Machine, version: str, rc: int) -> object:
    """A cuda-compat folder before the driver's own on the loader's path."""
    m.good().driver(version, folder="/usr/local/cuda-12.8/compat")
    m.path.insert(0, m.path.pop())
    return m.set(CUINIT_RC=rc)


def _stubs(m: Machine) -> object:
    m.good().driver(folder="/usr/local/cuda/lib64/stubs")
    m.path.insert(0, m.path.pop())
    return m.set(CUINIT_RC=34)


def _without(m: Machine, *nodes: str) -> Machine:
    m.good()
    for node in nodes:
        (m.root / "dev" / node).unlink()
    return m


def _shadowed_jitlink(m: Machine) -> object:
    """A cuSPARSE that needs a symbol, and an older nvJitLink without it in front."""
    import subprocess

    m.good()
    old, source = m.home / "old-cuda", m.home / "sparse.c"
    old.mkdir()
    new = m.home / "toolkit"
    for folder, text in ((new, "int __nvJitLinkAddData_13_0(void) { return 0; }"), (old, "int other(void) { return 0; }")):
        source.write_text(text)
        soname = "libnvJitLink.so.13"
        command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", folder / soname, source]
        subprocess.run(command, check=True)
    source.write_text("int __nvJitLinkAddData_13_0(void); int cusparseCreate(void) { return __nvJitLinkAddData_13_0(); }")
    link = ["gcc", "-shared", "-fPIC", "-Wl,-z,now", "-o", new / "libcusparse.so.12", source, new / "libnvJitLink.so.13"]
    subprocess.run(link, check=True)
    m.path.insert(0, old)
    return m


def _second_copy(m: Machine, soname: str, kind: str = "toolkit") -> object:
    m.good()
    other = m.library(kind, m.home / "other", soname, on_path=False)
    return m.variables(FAKE_TORCH_PRELOAD=f"{m.home}/toolkit/{soname.replace('_ops', '')}:{other}")


def _unset(m: Machine, name: str) -> Machine:
    (m.home / name).unlink()
    return m


def _model(name: str) -> Callable[[Machine], object]:
    def setup(m: Machine) -> object:
        m.good().python_path.append(MODELS)
        return m

    setup.__name__ = name
    return setup


def _model_case(name: str, what: str, model: str, code: str, fix: str, number: str = "") -> Case:
    args = ("--require", "model", "--model", f"smoke_models:{model}", "--timeout", "3")
    return Case(name, what, _model(model), code, "model", fix, number, args)


def _bare_docker(m: Machine, where: str) -> object:
    m.good()
    return os.chmod(m.file(f"{where}/docker"), 0o755)


DRIVER = [
    Case("gke-mount", "driver in /usr/local/nvidia/lib64, not searched", _gke, "GS212", "user-driver",
         "ENV LD_LIBRARY_PATH=/usr/local/nvidia/lib64:$LD_LIBRARY_PATH", "1"),
    Case("stale-cache", "libcuda in a system folder, loader cache stale", _stale_cache, "GS213", "user-driver",
         "Run `ldconfig`", "2"),
    Case("docker-without-gpus", "container without a GPU on a GPU host",
         lambda m: m.kernel().toolkit().image().framework().file("/.dockerenv"), "GS102", "device-nodes",
         "docker run --gpus all", "3"),
    Case("pod-without-gpu", "pod that requested no GPU",
         lambda m: m.kernel().variables(KUBERNETES_SERVICE_HOST="10.0.0.1"), "GS102", "device-nodes", "nvidia.com/gpu: 1"),
    Case("podman-without-gpu", "podman without the CDI device", lambda m: m.kernel().file("/run/.containerenv"), "GS102",
         "device-nodes", "--device nvidia.com/gpu=all"),
    Case("no-gpu-at-all", "a machine without a GPU, --require gpu", lambda m: m.toolkit(), "GS101", "device-nodes",
         "machine with an NVIDIA GPU"),
    Case("old-driver-runtime-13", "driver of CUDA 12.9 under the real runtime 13",
         lambda m: m.real(13).set(CUDA_VERSION=12090), "GS502", "runtime", "branch 580", "4"),
    Case("old-driver-runtime-12", "driver of CUDA 11.4 under the real runtime 12",
         lambda m: m.real(12).set(CUDA_VERSION=11040), "GS502", "runtime", "branch 525", "4"),
    Case("require-cuda", "NVIDIA_REQUIRE_CUDA above the driver",
         lambda m: m.good().variables(NVIDIA_REQUIRE_CUDA="cuda>=13.2 driver>=590"), "GS107", "device-nodes",
         "NVIDIA_DISABLE_REQUIRE=1", "5", exit=0, cause=False),
    Case("docker-without-toolkit", "GPU machine whose Docker has no NVIDIA toolkit",
         lambda m: _bare_docker(m, "/usr/bin"), "GS108", "device-nodes", "nvidia-ctk runtime configure", "6", exit=0,
         cause=False),
    Case("docker-from-snap", "GPU machine with Docker as a snap", lambda m: _bare_docker(m, "/snap/bin"), "GS108",
         "device-nodes", "not the snap", "6", exit=0, cause=False),
    Case("capabilities-without-compute", "NVML is mounted, libcuda is not", lambda m: _no_libcuda(m, True), "GS214",
         "user-driver", "NVIDIA_DRIVER_CAPABILITIES=compute,utility", "7"),
    Case("libcuda-nowhere", "device nodes without user-mode libraries", _no_libcuda, "GS211", "user-driver", "--gpus all"),
    Case("compat-older", "cuda-compat older than the host's driver", lambda m: _compat(m, "570.86.10", 803), "GS309",
         "driver-init", "/usr/local/cuda-12.8/compat", "8"),
    Case("compat-on-geforce", "cuda-compat on a GeForce", lambda m: _compat(m, "590.44.01", 804), "GS311", "driver-init",
         "/usr/local/cuda-12.8/compat", "9"),
    Case("compat-refused", "newer cuda-compat that refuses the base driver", lambda m: _compat(m, "590.44.01", 803),
         "GS515", "driver-init", "/usr/local/cuda-12.8/compat"),
    Case("fabric-manager", "NVSwitch host without Fabric Manager", lambda m: m.good().set(CUINIT_RC=802), "GS308",
         "driver-init", "nvidia-fabricmanager", "10"),
    Case("uvm-missing", "/dev/nvidia-uvm missing", lambda m: _without(m, "nvidia-uvm").set(CUINIT_RC=999), "GS105",
         "device-nodes", "nvidia-modprobe -u -c=0", "11"),
    Case("driver-upgraded", "host driver upgraded, old module loaded",
         lambda m: m.good().nvml("590.44.01").set(NVML_RC=18), "GS406", "nvml", "Reboot the host or reload", "12"),
    Case("container-predates-upgrade", "the same seen from an old container",
         lambda m: m.good().set(NVML_RC=18, CUINIT_RC=803).file("/.dockerenv"), "GS310", "driver-init",
         "Recreate the container", "12"),
    Case("cgroup-lost", "device rules lost after a systemd reload",
         lambda m: m.good().set(OPEN="/dev/nvidiactl=1,/dev/nvidia0=1", NVML_RC=999, CUINIT_RC=999).file("/.dockerenv"),
         "GS103", "device-nodes", "CDI", "13"),
    Case("no-permission", "group or SELinux label refuses the nodes",
         lambda m: m.good().set(OPEN="/dev/nvidiactl=13,/dev/nvidia0=13", NVML_RC=4, CUINIT_RC=304)
         .file("/run/.containerenv"), "GS104", "device-nodes", "keep-groups", "14"),
    Case("stub-library", "a stubs folder in front on the loader's path", _stubs, "GS219", "user-driver", "stubs", "15"),
    Case("jit-library-missing", "libnvidia-ptxjitcompiler not mounted", lambda m: m.good().set(MODULE_RC=221), "GS703",
         "kernels", "libnvidia-ptxjitcompiler", "18"),
    Case("ptx-too-new-with-sass", "toolkit newer than the driver, code for the GPU is there",
         lambda m: m.good().image(cuda="13.2").set(RUNTIME_VERSION=13020, CUDA_VERSION=13000, PTX_MAX="9.0"), "GS702",
         "kernels", "Update the host driver", "17", exit=0, cause=False),
    Case("ptx-too-new-without-sass", "the same, and the image has no code for the GPU",
         lambda m: m.good().image(cuda="13.2", compute_capabilities={"sass": ["8.0"], "ptx": ["8.0"]})
         .set(RUNTIME_VERSION=13020, CUDA_VERSION=13000, PTX_MAX="9.0"), "GS702", "kernels", "Update the host driver", "17"),
    Case("no-kernel-for-gpu", "a module without code for the GPU", lambda m: m.good().set(MODULE_RC=209), "GS701",
         "kernels", "compute capability 9.0"),
    Case("mig-without-instances", "MIG mode on, nobody made instances", lambda m: m.good().set(CUINIT_RC=3, MIG=1),
         "GS301", "driver-init", "nvidia-smi mig -cgi"),
    Case("mig-wrong-mask", "two MIG instances in the mask",
         lambda m: m.good().set(MIG=1, CUINIT_RC=100).variables(CUDA_VISIBLE_DEVICES="MIG-1,MIG-2"), "GS307",
         "driver-init", "CUDA_VISIBLE_DEVICES=MIG-<uuid>", "25"),
    Case("mig-index-mask", "an index where a MIG UUID is needed",
         lambda m: m.good().set(MIG=1, COUNT=0, NVML_COUNT=1).variables(CUDA_VISIBLE_DEVICES="0"), "GS307", "driver-init",
         "MIG-<uuid>", "25"),
    Case("mig-unknown-uuid", "a MIG UUID that does not exist",
         lambda m: m.good().set(MIG=1, CUINIT_RC=100).variables(CUDA_VISIBLE_DEVICES="MIG-0"), "GS305", "driver-init",
         "'MIG-0' does not", "25"),
    Case("mask-empty", "CUDA_VISIBLE_DEVICES is empty",
         lambda m: m.good().set(CUINIT_RC=100).variables(CUDA_VISIBLE_DEVICES=""), "GS304", "driver-init",
         "Unset CUDA_VISIBLE_DEVICES (it is '')"),
    Case("mask-minus-one", "CUDA_VISIBLE_DEVICES is -1, zero devices without an error",
         lambda m: m.good().set(COUNT=0, NVML_COUNT=1).variables(CUDA_VISIBLE_DEVICES="-1"), "GS304", "driver-init", "'-1'"),
    Case("mask-beyond", "CUDA_VISIBLE_DEVICES names a GPU beyond the last",
         lambda m: m.good().set(CUINIT_RC=100).variables(CUDA_VISIBLE_DEVICES="4"), "GS305", "driver-init", "'4' does not"),
    Case("mask-half-right", "the second entry of the mask does not exist",
         lambda m: m.good().variables(CUDA_VISIBLE_DEVICES="0,7"), "GS305", "driver-init", "'7' does not", exit=0,
         cause=False),
    Case("mask-unknown-uuid", "a GPU UUID that does not exist",
         lambda m: m.good().set(CUINIT_RC=101).variables(CUDA_VISIBLE_DEVICES="GPU-dead"), "GS305", "driver-init",
         "'GPU-dead' does not"),
    Case("module-not-loaded", "nodes without a kernel module",
         lambda m: m.good().set(CUINIT_RC=100, NVML_RC=9) and (m.root / "proc/driver/nvidia/version").unlink(), "GS201",
         "kernel-module", "modprobe nvidia"),
    Case("nouveau", "nouveau has the card",
         lambda m: _unset(m.good().set(CUINIT_RC=100), "root/proc/driver/nvidia/version")
         .file("/proc/modules", "nouveau 2097152 1 - Live 0x0\n"), "GS202", "kernel-module", "Blacklist nouveau"),
    Case("module-version-unknown", "a version file of another form",
         lambda m: m.good().file("/proc/driver/nvidia/version", "NVRM: something else\n"), "GS203", "kernel-module",
         "JSON file", exit=0, cause=False),
    Case("nodes-not-made", "bare machine whose driver made no nodes", lambda m: m.kernel(), "GS106", "device-nodes",
         "nvidia-modprobe"),
    Case("file-empty", "libcuda.so.1 is empty", _file("empty"), "GS216", "user-driver", "recreate the container"),
    Case("file-directory", "libcuda.so.1 is a directory", _file("directory"), "GS217", "user-driver",
         "Remove the directory"),
    Case("file-truncated", "libcuda.so.1 is cut off", _file("truncated"), "GS218", "user-driver", "reinstall the driver"),
    Case("file-text", "libcuda.so.1 is a text file", _file("text"), "GS218", "user-driver", "reinstall the driver"),
    Case("file-foreign", "libcuda.so.1 is of another architecture", _file("foreign"), "GS215", "user-driver", "riscv64"),
    Case("file-dangling", "libcuda.so.1 is a dangling link", _file("dangling"), "GS222", "user-driver",
         "points to nothing"),
    Case("file-not-libcuda", "a foreign library by libcuda's name", _file("foreign-name"), "GS221", "user-driver",
         "driver's own library"),
    Case("file-unreadable", "libcuda.so.1 may not be read",
         lambda m: m.good().set(OPEN="libcuda.so.1=13") and BROKEN["empty"](_gone(m), m), "GS223", "user-driver",
         "chmod a+rx"),
    Case("file-deleted", "libcuda was replaced on disk while in use",
         lambda m: m.good().set(UNLINK=1), "GS220", "user-driver", "Reboot the host", exit=0, cause=False),
    Case("wsl-native-driver", "a Linux driver inside WSL",
         lambda m: m.good().set(CUINIT_RC=100).file("/proc/version", "Linux version 5.15-microsoft-standard-WSL2"),
         "GS224", "user-driver", "Remove the Linux driver", cause=False),
    Case("pcie-narrow", "PCIe link at x4", lambda m: m.good().set(PCIE=4), "GS412", "nvml", "GPU 0", exit=0, cause=False),
    Case("ecc-errors", "uncorrected ECC errors", lambda m: m.good().set(ECC=3), "GS410", "nvml", "GPU 0", exit=0,
         cause=False),
    Case("slowed", "thermal slowdown by the hardware", lambda m: m.good().set(SLOWED=0x40), "GS411", "nvml", "GPU 0",
         exit=0, cause=False),
    Case("nvml-missing", "container without the utility capability",
         lambda m: _unset(m.good(), "driver/libnvidia-ml.so.1"), "GS408", "nvml",
         "NVIDIA_DRIVER_CAPABILITIES=compute,utility"),
    Case("gpu-lost", "one GPU fell off the bus", lambda m: m.good().set(NVML_DEVICE_RC=15), "GS404", "nvml",
         "Reboot the host"),
    Case("driver-nonsense", "the driver claims 2 billion devices", lambda m: m.good().set(COUNT=2**31 - 1), "GS316",
         "driver-init", "driver's own library"),
    Case("crash-in-cuinit", "libcuda dies in cuInit", lambda m: m.good().set(FAULT="segv:cuInit"), "GS001", "driver-init",
         "restore the package"),
    Case("crash-at-load", "libcuda dies while loading", lambda m: m.good().set(FAULT="abort:load"), "GS001", "user-driver",
         "Replace"),
    Case("hang-in-cuinit", "cuInit never comes back", lambda m: m.good().set(FAULT="hang:cuInit"), "GS002", "driver-init",
         "Xid", args=("--require", "gpu", "--timeout", "1")),
    Case("exit-in-cuinit", "libcuda calls exit(0)", lambda m: m.good().set(FAULT="exit:cuInit"), "GS003", "driver-init",
         "calls exit()"),
    Case("pipes-closed", "libcuda closes every file", lambda m: m.good().set(FAULT="close:cuInit"), "GS003",
         "driver-init", "calls exit()"),
    Case("injector", "a tool is injected into CUDA processes",
         lambda m: m.good().variables(CUDA_INJECTION64_PATH="/opt/tool.so"), "GS006", "platform", "CUDA_INJECTION64_PATH",
         exit=0, cause=False),
    Case("image-json-broken", "image.json is cut off", lambda m: m.good().row_file.write_text('{"name": '), "GS005",
         "platform", "Rebuild the image"),
]  # fmt: skip


def _gone(m: Machine) -> Path:
    target = m.home / "driver" / "libcuda.so.1"
    target.unlink()
    return target


SOFTWARE = [
    Case("runtime-newer-call", "the runtime needs a newer driver", lambda m: m.good().set(RUNTIME_RC=36), "GS503",
         "runtime", "Update the host driver"),
    Case("runtime-busy", "the runtime finds the GPU held", lambda m: m.good().set(RUNTIME_RC=46), "GS504", "runtime",
         "nvidia-smi -c 0"),
    Case("runtime-without-libcuda", "the runtime cannot load libcuda: 35 and driver version 0",
         lambda m: m.good().set(RUNTIME_RC=35, RUNTIME_DRIVER=0).file("/.dockerenv"), "GS501", "runtime", "--gpus all", "3"),
    Case("runtime-other", "the runtime gives a code without a story", lambda m: m.good().set(RUNTIME_RC=71), "GS505",
         "runtime", "71"),
    Case("runtime-missing", "the image ships no libcudart",
         lambda m: _unset(m.good().image(cuda="11.9"), "toolkit/libcudart.so.13"), "GS506", "runtime", "ldconfig", "21"),
    Case("runtime-empty", "libcudart is an empty file",
         lambda m: m.good() and (m.home / "toolkit/libcudart.so.13").write_bytes(b""), "GS507", "runtime", "Restore"),
    Case("major-above", "runtime major above the driver's, the runtime does not complain",
         lambda m: m.good().set(CUDA_VERSION=12090, MODULE_RC=1), "GS511", "compatibility", "branch 580"),
    Case("minor", "runtime newer than the driver within one major",
         lambda m: m.good().image(cuda="13.2").set(RUNTIME_VERSION=13020), "GS512", "compatibility", "13.2", exit=0,
         cause=False),
    Case("forward", "legitimate cuda-compat", lambda m: _compat(m, "590.44.01", 0), "GS513", "compatibility",
         "Nothing to do", exit=0, cause=False),
    Case("branch-below", "kernel branch below the CUDA major's minimum",
         lambda m: m.good().image(driver_min=500).kernel("550.54.15").driver("550.54.15").set(MODULE_RC=1), "GS514",
         "compatibility", "branch 580"),
    Case("row-floor", "kernel branch below the image's floor", lambda m: m.good().image(driver_min=590), "GS516",
         "compatibility", "branch 590"),
    Case("kernel-wrong", "a kernel gives wrong numbers", lambda m: m.good().set(KERNEL_WRONG=1), "GS704", "kernels",
         "another GPU"),
    Case("kernel-launch", "a launch fails", lambda m: m.good().set(LAUNCH_RC=700), "GS705", "kernels", "700"),
    Case("ptx-refused-everywhere", "even old PTX is refused", lambda m: m.good().set(MODULE_RC=222), "GS702", "kernels",
         "Update the host driver", "17"),
    Case("context-busy", "exclusive compute mode, context refused", lambda m: m.good().set(CTX_RC=46), "GS313", "kernels",
         "nvidia-smi -c 0"),
    Case("memory-full", "the GPU's memory is nearly full", lambda m: m.good().set(FREE_MIB=900), "GS706", "memory",
         "nvidia-smi", exit=0, cause=False),
    Case("memory-leak", "memory does not come back", lambda m: m.good().set(LEAK=1), "GS707", "memory", "idle GPU"),
    Case("memory-wrong", "memory gives back other bytes", lambda m: m.good().set(MEMORY_WRONG=1), "GS708", "memory", "Xid"),
    Case("library-missing", "the image lacks cuFFT", lambda m: _unset(m.good(), "toolkit/libcufft.so.12"), "GS601",
         "cufft", "tensorflow[and-cuda]", "21"),
    Case("library-cut-off", "cuDNN is cut off",
         lambda m: m.good() and (m.home / "toolkit/libcudnn.so.9").write_bytes(m.fakes["toolkit"].read_bytes()[:4096]),
         "GS602", "cudnn", "Restore"),
    Case("jitlink-shadowed", "an older nvJitLink in front", _shadowed_jitlink, "GS603", "cusparse", "old-cuda", "19"),
    Case("two-copies", "two cuBLAS in the framework's process", lambda m: _second_copy(m, "libcublas.so.13"), "GS604",
         "copies", "Keep one copy"),
    Case("cudnn-two-roots", "cuDNN's parts from two folders", lambda m: _second_copy(m, "libcudnn_ops.so.9"), "GS605",
         "copies", "Keep one cuDNN", "20"),
    *(Case(f"wrong-{family}", f"{family} gives wrong numbers", lambda m, family=family: m.good().set(WRONG=family), "GS606",
           family, "another GPU") for family in ("cublas", "curand", "cusolver", "cusparse", "cufft", "cudnn")
      if family != "curand"),
    *(Case(f"fail-{call}", f"{call} gives an error", lambda m, call=call: m.good().set(FAIL=call), "GS607", family,
           "Free GPU memory")
      for family, call in (("cublas", "cublasCreate_v2"), ("cusolver", "cusolverDnCreate"), ("cusparse", "cusparseCreate"),
                           ("cudnn", "cudnnCreate"), ("cufft", "cufftPlan1d"), ("nccl", "ncclGetUniqueId"))),
    Case("crash-in-cudnn", "cuDNN dies", lambda m: m.good().set(TOOLKIT_CRASH="cudnnCreate"), "GS001", "cudnn", "Replace"),
    Case("row-cudnn", "another cuDNN than the row's", lambda m: m.good().set(CUDNN_VERSION=91000), "GS608", "cudnn",
         "constraints.txt"),
    Case("row-cudart", "another CUDA than the row's", lambda m: m.good().image(cuda="13.2"), "GS608", "runtime",
         "constraints.txt"),
    Case("cudnn-other-major", "cuDNN built for another CUDA major", lambda m: m.good().set(CUDNN_CUDART=12090), "GS608",
         "cudnn", "constraints.txt"),
    Case("shm-small", "/dev/shm of 64 MiB, one GPU", lambda m: m.good().set(SHM=64 << 20), "GS901", "collective",
         "1 GiB", "23", exit=0, cause=False),
    Case("shm-small-two-gpus", "/dev/shm of 64 MiB, two GPUs",
         lambda m: m.good().set(SHM=64 << 20, COUNT=2).file("/.dockerenv"), "GS901", "collective", "--shm-size=1g", "23"),
    Case("nccl-fails", "NCCL cannot build the group", lambda m: m.good().set(COUNT=2, FAIL="ncclCommInitAll"), "GS902",
         "collective", "NCCL_DEBUG=INFO"),
    Case("nccl-wrong", "a wrong sum", lambda m: m.good().set(COUNT=2, WRONG="nccl"), "GS903", "collective",
         "NCCL_P2P_DISABLE=1"),
    Case("fewer-gpus", "two GPUs asked for, one there", lambda m: m.good(), "GS904", "collective", "2 GPUs",
         args=("--require", "gpu", "--gpus", "2")),
]  # fmt: skip
TORCH = ("--require", "framework", "--framework", "torch")
TENSORFLOW = ("--require", "framework", "--framework", "tensorflow")
TF_ROW = {"framework": "tensorflow", "framework_version": "2.21.0", "cuda": "12.9", "driver_min": 525,
          "compute_capabilities": {"sass": ["6.0", "7.0", "8.0", "8.9"], "ptx": ["9.0"]}}  # fmt: skip


def _tensorflow(m: Machine) -> Machine:
    m.good().toolkit(12).image(**TF_ROW)
    return m.set(RUNTIME_VERSION=12090, CUDNN_CUDART=12090)


WORKLOAD = [
    Case("framework-absent", "torch does not import", lambda m: m.good().set(TORCH_IMPORT="libc10.so: cannot open"),
         "GS801", "framework", "Install torch", args=TORCH),
    Case("framework-jitlink", "torch meets a shadowing nvJitLink",
         lambda m: m.good().set(TORCH_IMPORT="libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1"), "GS603",
         "framework", "LD_LIBRARY_PATH", "19", args=TORCH),
    Case("cpu-wheel", "a CPU wheel in a GPU image", lambda m: m.good().set(TORCH_CUDA=""), "GS802", "framework",
         "constraints.txt", "22", args=TORCH),
    Case("cpu-wheel-in-build", "the same, found while the image is built",
         lambda m: m.toolkit().image().framework().set(TORCH_CUDA=""), "GS802", "framework", "constraints.txt", "22",
         args=("--mode", "image")),
    Case("framework-sees-none", "torch counts zero devices", lambda m: m.good().set(TORCH_COUNT=0), "GS803", "framework",
         "CUDA_VISIBLE_DEVICES", "25", args=TORCH),
    Case("arch-missing", "the wheel lacks sm_120", lambda m: m.good().image(compute_capabilities={}).set(
        CC="12.0", TORCH_ARCHS="sm_50 sm_60 sm_70 sm_80 sm_86 sm_90"), "GS804", "framework", "12.0", "16", args=TORCH),
    Case("arch-message", "torch says that it has no kernel image",
         lambda m: m.good().set(TORCH_ERROR="CUDA error: no kernel image is available for execution on the device"),
         "GS804", "framework", "9.0", "16", args=TORCH),
    Case("framework-wrong", "torch gives wrong numbers", lambda m: m.good().set(TORCH_WRONG=1), "GS805", "framework",
         "another GPU", args=TORCH),
    Case("framework-fails", "an operation of torch fails", lambda m: m.good().set(TORCH_ERROR="CUDNN_STATUS_BAD_PARAM"),
         "GS806", "framework", "evidence", args=TORCH),
    Case("framework-ptx", "torch meets PTX that is too new",
         lambda m: m.good().set(TORCH_ERROR="the provided PTX was compiled with an unsupported toolchain."), "GS702",
         "framework", "Update the host driver", "17", args=TORCH),
    Case("tensorflow-dlopen", "TensorFlow cannot load its GPU libraries", lambda m: _tensorflow(m).set(TF_COUNT=0),
         "GS807", "framework", "tensorflow[and-cuda]", "21", args=TENSORFLOW),
    Case("tensorflow-wrong", "TensorFlow gives wrong numbers", lambda m: _tensorflow(m).set(TF_WRONG=1), "GS805",
         "framework", "another GPU", args=TENSORFLOW),
    Case("tensorflow-cpu-build", "a CPU build of TensorFlow", lambda m: _tensorflow(m).set(TF_CUDA=""), "GS802",
         "framework", "constraints.txt", "22", args=TENSORFLOW),
    Case("promised-arch", "the row promises an architecture that the wheel lacks",
         lambda m: m.good().set(TORCH_ARCHS="sm_75 sm_80 sm_90"), "GS808", "framework", "sm_86", args=("--mode", "image")),
    Case("framework-other-cuda", "torch of another CUDA major", lambda m: m.good().set(TORCH_CUDA="12.8"), "GS809",
         "framework", "constraints.txt", args=("--mode", "image")),
    Case("framework-version", "another torch than the row's", lambda m: m.good().set(TORCH_VERSION="2.10.0+cu130"),
         "GS608", "framework", "constraints.txt", args=("--mode", "image")),
    Case("forked", "torch was used before a fork",
         lambda m: m.good().set(TORCH_ERROR="Cannot re-initialize CUDA in forked subprocess."), "GS810", "framework",
         "spawn", "24", args=TORCH),
    Case("cuinit-after-fork", "cuInit gives 3 without MIG", lambda m: m.good().set(CUINIT_RC=3), "GS302", "driver-init",
         "spawn", "24"),
    Case("framework-not-there", "plain image, --require framework",
         lambda m: m.good().image(framework="plain"), "GS007", "framework", "require less",
         args=("--require", "framework", "--framework", "plain")),
    Case("image-library-missing", "the image is built without cuDNN",
         lambda m: _unset(m.toolkit().image().framework(), "toolkit/libcudnn.so.9"), "GS601", "cudnn", "ldconfig", "21",
         args=("--mode", "image")),
    _model_case("model-differs", "predictions differ on the GPU", "Differs", "GS912", "tolerance"),
    _model_case("model-label", "labels differ on the GPU", "OtherLabel", "GS912", "tolerance"),
    _model_case("model-nan", "not a number on the GPU", "NotANumber", "GS912", "tolerance"),
    _model_case("model-fewer", "fewer predictions on the GPU", "FewerItems", "GS912", "tolerance"),
    _model_case("model-load", "weights are missing", "NoLoad", "GS911", "--model"),
    _model_case("model-unknown", "the class does not exist", "Nobody", "GS911", "--model"),
    _model_case("model-predict", "predict() raises", "NoPredict", "GS913", "predict()"),
    _model_case("model-examples", "no examples", "NoExamples", "GS914", "examples"),
    _model_case("model-forks", "the model's workers were forked", "Forks", "GS810", "spawn", "24"),
    _model_case("model-dies", "the model kills its process", "Dies", "GS001", "Replace"),
    _model_case("model-hangs", "the model hangs", "Hangs", "GS002", "--timeout"),
    _model_case("model-leaves", "the model ends its process", "Leaves", "GS003", "exit()"),
    Case("model-cpu-only", "the model on a machine without a GPU", lambda m: m.python_path.append(MODELS), "GS915",
         "model", "--require model", args=("--model", "smoke_models:Model"), exit=0, cause=False),
]  # fmt: skip
CASES = [*DRIVER, *SOFTWARE, *WORKLOAD]

# Codes of the driver's start, injected under NVIDIA's real runtimes: code, finding, fix.
CUDA_CODES = [
    (3, "GS302", "spawn"), (34, "GS219", "stubs"), (46, "GS313", "nvidia-smi -c 0"), (100, "GS306", "nvidia-smi -L"),
    (101, "GS314", "nvidia-smi -L"), (304, "GS303", "device nodes"), (802, "GS308", "nvidia-fabricmanager"),
    (803, "GS310", "Reboot the host"), (804, "GS311", "update the host driver"), (999, "GS312", "nvidia_uvm"),
    (2, "GS315", "Look up"),
]  # fmt: skip
NVML_CODES = [
    (4, "GS401", "modes of /dev/nvidia"), (9, "GS402", "modprobe nvidia"), (12, "GS403", "compute,utility"),
    (15, "GS404", "Reboot"), (16, "GS405", "gpu-reset"), (18, "GS406", "Reboot"), (999, "GS407", "Reboot"),
    (2, "GS409", "nvmlReturn_t"),
]  # fmt: skip
