"""Driver versions: libcuda's file, the kernel module, and why the two do not fit together."""

from __future__ import annotations

import os
import re

from .verdicts import Context, Finding, finding


def branch(version: str) -> int | None:
    """Return the driver branch of a version: ``580.65.06`` gives 580."""
    match = re.match(r"\d{2,4}(?=\.)", version or "")
    return int(match.group()) if match else None


def number(version: str) -> tuple[int, ...]:
    """Return a driver version as numbers, to compare: ``580.65.06`` gives (580, 65, 6)."""
    return tuple(int(part) for part in version.split(".")) if branch(version) else ()


def file_version(path: str) -> str:
    """Return the driver version in a library's file name: ``libcuda.so.535.104.05`` gives ``535.104.05``."""
    match = re.search(r"\.so\.(\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)$", path or "")
    return match.group(1) if match else ""


def in_folder(path: str, name: str) -> bool:
    """Say whether a folder called ``name`` (stubs, compat) is on the way to a file."""
    return f"/{name}/" in (path or "")


def mounted(context: Context, path: str) -> bool:
    """Say whether a file, or its link's target, was mounted into the container."""
    shown = {context.host.shown(path), context.host.shown(os.path.realpath(path))}
    mounts = context.host.read("/proc/self/mountinfo") or ""
    return any(len(fields := line.split()) > 4 and fields[4] in shown for line in mounts.splitlines())


def mismatch(context: Context, rc: int, evidence: str, path: str) -> Finding:
    """Tell apart why libcuda does not fit the kernel module (803) or the GPU (804)."""
    kernel, own = context.fact("kernel-module", "version") or "", file_version(path)
    seen = f"{evidence}; libcuda {own or '?'} from {path or '?'}, kernel module {kernel or '?'}"
    folder = context.host.shown(os.path.dirname(path))
    if rc == 804:
        return finding(context, "GS311", seen, folder=folder)
    compat = in_folder(path, "compat")
    known = bool(own and kernel)
    if compat and known and number(own) > number(kernel):
        return finding(context, "GS515", seen, folder=folder)
    # What the container runtime mounted is the host's own: it is the container that is older than the host's driver.
    of_host = not compat and mounted(context, path)
    # NVML of the same age says the same: then nothing was copied, the whole driver was upgraded.
    both = context.fact("nvml", "rc") == 18
    on_path = os.path.dirname(path) in context.env.get("LD_LIBRARY_PATH", "").split(":")
    copied = (context.platform.in_container or on_path) and not of_host and not both
    older = known and number(own) < number(kernel) and copied
    return finding(context, "GS309" if compat or older else "GS310", seen, folder=folder, path=path)
