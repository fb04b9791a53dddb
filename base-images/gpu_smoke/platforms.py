"""Where the walk runs: bare machine, container, Kubernetes, WSL ... The fix lines depend on it."""

from __future__ import annotations

from typing import NamedTuple

from .host import Host

# The first lines of gVisor's /proc/version name this kernel build on every host.
GVISOR_BUILD = "Sun Jan 10 15:06:54 PST 2016"
GPU_VARIABLES = (
    "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_REQUIRE_CUDA", "NVIDIA_DISABLE_REQUIRE",
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_INJECTION64_PATH", "NSIGHT_CUDA_DEBUGGER", "LD_LIBRARY_PATH",
    "LD_PRELOAD", "NCCL_DEBUG",
)  # fmt: skip


class Platform(NamedTuple):
    """``kind`` is the name shown; ``names`` are the keys for fix lines, most specific first."""

    kind: str
    names: list[str]
    wsl: bool
    gvisor: bool
    jetson: bool

    @property
    def in_container(self) -> bool:
        """Say whether the program runs in a container of any sort."""
        return "container" in self.names


def detect(host: Host, env: dict[str, str]) -> Platform:
    """Tell the platform from marker files and variables."""
    kernel = host.read("/proc/version") or ""
    wsl = "microsoft" in kernel.lower() or host.exists("/dev/dxg")
    jetson = host.exists("/dev/nvgpu") or host.exists("/etc/nv_tegra_release")
    kind = _container(host, env)
    names = [kind] if kind else []
    if kind == "gke":
        names.append("kubernetes")
    if kind:
        names.append("container")
    if wsl:
        names.append("wsl")
    return Platform(kind or ("wsl" if wsl else "bare"), names or ["bare"], wsl, GVISOR_BUILD in kernel, jetson)


def _container(host: Host, env: dict[str, str]) -> str:
    if env.get("KUBERNETES_SERVICE_HOST") or host.exists("/var/run/secrets/kubernetes.io"):
        return "gke" if host.exists("/usr/local/nvidia") else "kubernetes"
    if host.exists("/run/.containerenv") or env.get("container") == "podman":
        return "podman"
    if host.exists("/.singularity.d") or env.get("APPTAINER_CONTAINER") or env.get("SINGULARITY_CONTAINER"):
        return "apptainer"
    if host.exists("/.dockerenv"):
        return "docker"
    groups = host.read("/proc/1/cgroup") or ""
    if "kubepods" in groups:
        return "kubernetes"
    return "docker" if "docker" in groups or "containerd" in groups else ""
