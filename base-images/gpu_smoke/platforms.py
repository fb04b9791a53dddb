"""Where the walk runs: bare machine, container, Kubernetes, WSL ... The fix lines depend on it."""

from __future__ import annotations

import re
from typing import NamedTuple

from .host import Host

# The first lines of gVisor's /proc/version name this kernel build on every host.
GVISOR_BUILD = "Sun Jan 10 15:06:54 PST 2016"
GPU_VARIABLES = (
    "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_REQUIRE_CUDA", "NVIDIA_DISABLE_REQUIRE",
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_INJECTION64_PATH", "NSIGHT_CUDA_DEBUGGER", "LD_LIBRARY_PATH",
    "LD_PRELOAD", "NCCL_DEBUG", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "CUDA_DISABLE_PTX_JIT",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "SLURM_JOB_ID", "SLURM_JOB_GPUS",
    "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "CUDA_LAUNCH_BLOCKING", "CUDA_FORCE_PTX_JIT", "CUDA_FORCE_JIT",
)  # fmt: skip
SLURM_GIVES = (
    "SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_TASK", "SLURM_GPUS_PER_SOCKET", "GPU_DEVICE_ORDINAL",
)  # fmt: skip
# What a container manager leaves in /run/systemd/container or in the variable `container`.
MANAGERS = {"docker": "docker", "podman": "podman", "oci": "container", "lxc": "lxc", "lxc-libvirt": "lxc",
            "systemd-nspawn": "container", "rkt": "container", "proot": "container", "pouch": "container",
            "containerd": "container"}  # fmt: skip
ENGINES = ("docker", "podman", "container")
OVERLAYS = ("overlay", "aufs", "fuse.fuse-overlayfs", "fuse-overlayfs")


class Platform(NamedTuple):
    """``kind`` is the name shown; ``names`` are the keys for fix lines, most specific first."""

    kind: str
    names: list[str]
    wsl: bool
    gvisor: bool
    jetson: bool
    rootless: bool = False
    slurm: bool = False

    @property
    def in_container(self) -> bool:
        """Say whether the program runs in a container of any sort."""
        return "container" in self.names

    @property
    def in_kubernetes(self) -> bool:
        """Say whether the container is one of a pod."""
        return "kubernetes" in self.names


def detect(host: Host, env: dict[str, str]) -> Platform:
    """Tell the platform from marker files, mounts and variables."""
    kernel = host.read("/proc/version") or ""
    wsl = "microsoft" in kernel.lower() or host.exists("/dev/dxg")
    jetson = host.exists("/dev/nvgpu") or host.exists("/etc/nv_tegra_release")
    gvisor = GVISOR_BUILD in kernel
    kind = _container(host, env)
    slurm = bool(env.get("SLURM_JOB_ID") or env.get("SLURM_JOBID"))
    # A pod may have a user namespace too (`hostUsers: false`), and none of an engine's options.
    rootless = kind in ENGINES and _rootless(host)
    traits = (("gvisor", gvisor), ("slurm", slurm), ("slurm-node", slurm and not kind), ("rootless", rootless),
              ("wsl-docker", wsl and kind == "docker"), ("jetson-docker", jetson and kind == "docker"),
              (kind, bool(kind)), ("kubernetes", kind == "gke"), ("container", bool(kind)), ("wsl", wsl),
              ("jetson", jetson))  # fmt: skip
    names = [name for name, present in traits if present]
    return Platform(kind or ("wsl" if wsl else "bare"), [*dict.fromkeys(names)] or ["bare"], wsl, gvisor, jetson,
                    rootless, slurm)  # fmt: skip


def slurm_gives_gpus(env: dict[str, str]) -> bool:
    """Say whether the Slurm job holds GPUs by its own variables."""
    mask = env.get("CUDA_VISIBLE_DEVICES", "")
    return any(env.get(name) for name in SLURM_GIVES) or bool(mask and mask.lower() not in ("nodevfiles", "-1"))


def _container(host: Host, env: dict[str, str]) -> str:
    if env.get("KUBERNETES_SERVICE_HOST") or host.exists("/var/run/secrets/kubernetes.io"):
        return "gke" if host.exists("/usr/local/nvidia") else "kubernetes"
    if host.exists("/run/.containerenv") or env.get("container") == "podman":
        return "podman"
    if host.exists("/.singularity.d") or env.get("APPTAINER_CONTAINER") or env.get("SINGULARITY_CONTAINER"):
        return "apptainer"
    if host.exists("/.dockerenv"):
        return "docker"
    return _by_mounts(host, env)


def _by_mounts(host: Host, env: dict[str, str]) -> str:
    """Tell a container without a marker file: by its manager's name, its groups, and what is mounted at its root."""
    named = MANAGERS.get((host.read("/run/systemd/container") or "").strip() or env.get("container", ""), "")
    told = (host.read("/proc/1/cgroup") or "") + (host.read("/proc/self/cgroup") or "")
    mounts = host.read("/proc/self/mountinfo") or ""
    if "kubepods" in told or "/kubelet/pods/" in mounts:
        return "gke" if host.exists("/usr/local/nvidia") else "kubernetes"
    if named in ("docker", "podman"):
        return named
    if "docker" in told or "/docker/containers/" in mounts:
        return "docker"
    if "libpod" in told or "/containers/storage/" in mounts:
        return "podman"
    if "lxc" in told:
        return "lxc"
    if named or "containerd" in told:
        return named or "container"
    root = re.search(r"^\S+ \S+ \S+ \S+ / .*? - (\S+) .*$", mounts, re.M)
    # Machines that boot from a read-only image have such a root too, and an init of their own.
    booted = (host.read("/proc/1/comm") or "").strip() in ("systemd", "init")
    return "container" if root and root.group(1) in OVERLAYS and not booted else ""


def _rootless(host: Host) -> bool:
    """Say whether root in here is another user outside (user_namespaces(7))."""
    fields = (host.read("/proc/self/uid_map") or "").split()
    return len(fields) >= 3 and fields[:2] != ["0", "0"]
