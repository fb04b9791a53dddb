"""Facts about the machine beside its device nodes: limits, PCI devices, the kernel module's own lists."""

from __future__ import annotations

import os
import re
import resource
import stat

from .isolate import Facts
from .verdicts import Context, oom_kills

NVIDIA = "0x10de"
# What CUDA needs of addresses is at least the GPU's and the machine's memory; a limit below this is never meant for it.
ROOM = 1 << 40


def facts(context: Context) -> Facts:
    """Return ``limits``, ``pci``, ``listed`` (GPUs in /proc/driver/nvidia), modules, MIG, MPS, the memory limit."""
    host, mig_caps = context.host, _mig_caps(context)
    return {
        "limits": {"as": _limit(resource.RLIMIT_AS), "nofile": _limit(resource.RLIMIT_NOFILE)},
        "memory_max": _number(
            host.read("/sys/fs/cgroup/memory.max") or host.read("/sys/fs/cgroup/memory/memory.limit_in_bytes")
        ),
        "oom_kills": oom_kills(host),
        "uvm_disable_hmm": host.read("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm"),
        "uvm_major": kernel_numbers(context).get("nvidia-uvm"), "ib_umad": host.exists("/sys/module/ib_umad"),
        "imex_channels": host.names("/dev/nvidia-caps-imex-channels"),
        "pci": _pci(context), "listed": _listed(context), "caps": host.names("/dev/nvidia-caps"),
        "mig_caps": mig_caps, "refused_caps": _refused_caps(context, mig_caps), "mps": _mps(context),
    }  # fmt: skip


def _limit(kind: int) -> int | None:
    soft = resource.getrlimit(kind)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _number(text: str | None) -> int | None:
    value = (text or "").strip()
    return int(value) if value.isdigit() and int(value) < 1 << 60 else None


def _pci(context: Context) -> list[Facts]:
    """Return NVIDIA's display and 3D controllers: address, device id, the kernel module that has each ("" for none)."""
    found, host = [], context.host
    for address in host.names("/sys/bus/pci/devices"):
        folder = f"/sys/bus/pci/devices/{address}"
        kind = (host.read(f"{folder}/class") or "").strip()
        if (host.read(f"{folder}/vendor") or "").strip() == NVIDIA and kind.startswith("0x03"):
            driver = host.path(f"{folder}/driver")
            device = (host.read(f"{folder}/device") or "").strip()
            number = int(device, 16) if re.fullmatch(r"0x[0-9a-f]{4}", device) else 0
            found.append({"address": address, "device": number, "driver": os.path.basename(os.path.realpath(driver))
                          if os.path.lexists(driver) else ""})  # fmt: skip
    return found


def _listed(context: Context) -> list[dict[str, str]]:
    """Return the GPUs that the kernel module lists, by bus address: UUID, minor number, whether excluded."""
    found, base = [], "/proc/driver/nvidia/gpus"
    for bus in context.host.names(base):
        text = context.host.read(f"{base}/{bus}/information") or ""
        entry = {"bus": bus}
        for key, label in (("uuid", "GPU UUID"), ("minor", "Device Minor"), ("excluded", "GPU Excluded")):
            match = re.search(rf"^{label}:\s*(\S+)", text, re.M)
            entry[key] = match.group(1) if match else ""
        found.append(entry)
    return found


def _mig_caps(context: Context) -> list[str]:
    """Return the capability nodes that the kernel module wants for MIG instances, as /dev/nvidia-caps names them."""
    found = []
    for path in context.host.files("/proc/driver/nvidia/capabilities/gpu*/mig/gi*/**/access"):
        match = re.search(r"DeviceFileMinor:\s*(\d+)", context.host.read(path) or "")
        if match:
            found.append(f"nvidia-cap{match.group(1)}")
    return found


def _refused_caps(context: Context, wanted: list[str]) -> dict[str, str]:
    """Return the capability nodes of MIG instances that are here and cannot be read, with the errno's name."""
    found = {}
    for name in {*wanted} & {*context.host.names("/dev/nvidia-caps")}:
        answer = context.host.opened(f"/dev/nvidia-caps/{name}", os.O_RDONLY)
        if isinstance(answer, int):
            os.close(answer)
        else:
            found[f"/dev/nvidia-caps/{name}"] = answer
    return dict(sorted(found.items()))


def _mps(context: Context) -> Facts:
    """Return the MPS pipe folder and whether a daemon's pipe lies there."""
    folder = context.env.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps"
    named = bool(context.env.get("CUDA_MPS_PIPE_DIRECTORY"))
    return {"folder": folder, "named": named, "there": context.host.exists(folder),
            "control": context.host.exists(f"{folder}/control")}  # fmt: skip


def not_a_device(context: Context, path: str) -> str:
    """Say what stands where a device node should be, "" for a node; on a recorded machine nodes are plain files."""
    try:
        mode = os.stat(context.host.path(path)).st_mode
    except OSError:
        return ""
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a plain file" if stat.S_ISREG(mode) and not context.host.root else ""


def kernel_numbers(context: Context) -> dict[str, int]:
    """Return the major numbers that the kernel gave to NVIDIA's nodes (/proc/devices)."""
    text = context.host.read("/proc/devices") or ""
    return {name: int(major) for major, name in re.findall(r"^\s*(\d+) (nvidia\S*)$", text, re.M)}


def wrong_major(context: Context, path: str, names: tuple[str, ...]) -> str:
    """Compare a node's major number with /proc/devices; return the evidence of a node that leads elsewhere, else ""."""
    known = kernel_numbers(context)
    wanted = {known[name] for name in names if name in known}
    try:
        status = os.stat(context.host.path(path))
    except OSError:
        return ""
    if not wanted or not stat.S_ISCHR(status.st_mode) or os.major(status.st_rdev) in wanted:
        return ""
    return f"{path} has major number {os.major(status.st_rdev)}, the kernel's is {min(wanted)}"
