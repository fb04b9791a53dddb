"""What PCI devices and kernel modules say of a GPU that does not start: its generation, fabric and module."""

from __future__ import annotations

from .drivers import branch
from .verdicts import Context, Finding, finding

OLDEST_BRANCH = 570  # of the driver, for Blackwell
# NVIDIA's PCI device ids (pci.ids): Blackwell begins at 0x2900; what is newer has higher ones.
BLACKWELL = 0x2900
HGX = (range(0x2900, 0x2940), range(0x3180, 0x31C0))  # B200, B300: NVSwitches in the same machine
NVL72 = (range(0x2940, 0x2980), range(0x31C0, 0x3200))  # GB200, GB300: NVSwitches in trays of their own


def device_ids(context: Context) -> list[int]:
    """Return the PCI device ids of NVIDIA's GPUs on this machine, whatever driver has them."""
    return [card["device"] for card in context.fact("device-nodes", "pci") or [] if card.get("device")]


def is_blackwell(context: Context) -> bool:
    """Say whether every GPU of the machine is of Blackwell or newer, which need the open kernel module."""
    ids = device_ids(context)
    return bool(ids) and min(ids) >= BLACKWELL


def in_ranges(context: Context, ranges: tuple[range, ...]) -> bool:
    """Say whether a GPU of the machine has a device id in these ranges."""
    return any(number in part for number in device_ids(context) for part in ranges)


def not_started(context: Context, seen: str) -> Finding | None:
    """Return why the driver has no GPU of Blackwell or newer: its age, the proprietary module, else the firmware."""
    if not is_blackwell(context):
        return None
    ids = ", ".join(f"10de:{number:04x}" for number in device_ids(context)[:4])
    flavour = context.fact("kernel-module", "flavour") or "unknown"
    version = context.fact("kernel-module", "version") or ""
    old = (branch(version) or OLDEST_BRANCH) < OLDEST_BRANCH
    code = "GS128" if old else "GS125" if flavour == "proprietary" else "GS126"
    return finding(context, code, f"{seen}; GPU {ids} with the {flavour} kernel module {version}".rstrip(), "error")


def hmm(context: Context) -> str:
    """Return what is known of HMM in nvidia_uvm, as evidence; "" where the module does not show it or it is off."""
    disabled = (context.fact("device-nodes", "uvm_disable_hmm") or "").strip()
    return f"HMM is on (nvidia_uvm's uvm_disable_hmm is {disabled})" if disabled in ("N", "0") else ""


def is_virtual(context: Context) -> bool:
    """Say whether the processor knows that it is a virtual machine's."""
    return " hypervisor" in (context.host.read("/proc/cpuinfo") or "")


def missing_fabric_parts(context: Context) -> list[str]:
    """Name what the NVLink 5 fabric of B200 and newer needs and this machine does not show."""
    found = []
    if in_ranges(context, HGX) and not context.fact("device-nodes", "ib_umad"):
        found.append("the kernel module ib_umad")
    if in_ranges(context, NVL72) and not context.fact("device-nodes", "imex_channels"):
        found.append("an IMEX channel in /dev/nvidia-caps-imex-channels")
    return found


def fabric_in_progress(context: Context, seen: str) -> Finding:
    """Return what a fabric waits for: on NVLink 5 a part that is missing, else Fabric Manager."""
    missing = missing_fabric_parts(context)
    if missing:
        told = f"{seen}; missing: {', '.join(missing)}"
        return finding(context, "GS331", told, value=" and ".join(missing))
    if in_ranges(context, HGX):
        return finding(context, "GS332", f"{seen}; ib_umad is loaded")
    return finding(context, "GS321", seen)


def without_imex(context: Context, seen: str) -> Finding | None:
    """Return the finding of a GB200 or newer whose container has no IMEX channel."""
    if not in_ranges(context, NVL72) or context.fact("device-nodes", "imex_channels"):
        return None
    return finding(context, "GS906", f"{seen}; /dev/nvidia-caps-imex-channels holds no channel", "error")
