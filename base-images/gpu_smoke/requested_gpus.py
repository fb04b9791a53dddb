"""Which GPUs this process should have: what it was asked for with, and what nodes, NVML, CUDA and a mask list."""

from __future__ import annotations

import re

from . import mask
from .drivers import mounted
from .explanations import BROKEN, broken_gpu, mig_on
from .gpus import gpu_name, known
from .platforms import slurm_gives_gpus
from .verdicts import Context, Finding, finding

NONE = ("", "none", "void")
MOUNTED = "/var/run/nvidia-container-devices"


def visible(context: Context) -> str | None:
    """Return NVIDIA_VISIBLE_DEVICES, None when it is not set."""
    return context.env.get("NVIDIA_VISIBLE_DEVICES")


def asked_for_none(context: Context) -> bool:
    """Say whether NVIDIA_VISIBLE_DEVICES tells the container runtime to give no GPU."""
    value = visible(context)
    return value is not None and value.strip().lower() in NONE


def names_gpus(context: Context) -> bool:
    """Say whether NVIDIA_VISIBLE_DEVICES names GPUs one by one, as a device plugin does (``all`` comes with images).

    By UUID, by number, by a name of CDI (vendor/class=device), or by the folder into which a plugin mounts their names.
    """
    return bool(
        re.match(rf"\s*(GPU-|MIG-|\d|[\w.-]+/[\w.-]+=|k8s-device-plugin|{MOUNTED}/?\s*$)", visible(context) or "")
    )


def named_gpus(context: Context) -> set[str]:
    """Return the whole GPUs that NVIDIA_VISIBLE_DEVICES names by UUID or number; none where it names slices too."""
    value = visible(context) or ""
    names = context.host.names(MOUNTED) if value.strip().rstrip("/") == MOUNTED else value.split(",")
    found = {name.strip().lower() for name in names}
    return found if all(re.fullmatch(r"gpu-[0-9a-f-]+|\d{1,4}", name) for name in found) else set()


def slurm_without_gpus(context: Context) -> bool:
    """Say whether this is a Slurm job that was given no GPU."""
    return context.platform.slurm and not slurm_gives_gpus(context.env)


def explain_missing_gpu(context: Context, seen: str) -> Finding | None:
    """Return why a process was given no GPU, from what it was asked for with; None when nothing says so."""
    value = visible(context)
    told = (
        f"{seen}; NVIDIA_VISIBLE_DEVICES={value!r}" if value is not None else f"{seen}; NVIDIA_VISIBLE_DEVICES is unset"
    )
    if context.platform.gvisor:
        return finding(context, "GS118", f"{seen}; the kernel is gVisor's", "warning")
    if slurm_without_gpus(context):
        job = context.env.get("SLURM_JOB_ID") or context.env.get("SLURM_JOBID")
        return finding(context, "GS117", f"{seen}; Slurm job {job} has no SLURM_JOB_GPUS", "warning")
    if not context.platform.in_container:
        return None
    if asked_for_none(context):
        return finding(context, "GS115", told, "warning", value=value)
    if (library := _mounted_library(context)) and "apptainer" not in context.platform.names:
        return finding(context, "GS127", f"{told}; {library} is mounted", "warning")
    if names_gpus(context):
        return finding(context, "GS114", told, "warning", value=value)
    return None


def _mounted_library(context: Context) -> str:
    """Return a library of the driver that a container runtime mounted, "" for none: then NVIDIA's runtime ran."""
    paths = [context.fact(layer, "path") or "" for layer in ("user-driver", "nvml")]
    return next((path for path in paths if path and mounted(context, path)), "")


def uncounted(context: Context) -> Finding | None:
    """Return the finding of GPUs that one place lists and CUDA does not, where neither a mask nor MIG says why."""
    nodes = context.fact("device-nodes", "nodes") or {}
    usable = [path for path, error in nodes.items() if re.search(r"nvidia\d+$", path) and error is None]
    listed = context.fact("nvml", "devices") or []
    have = context.fact("driver-init", "devices") or []
    whole = [device for device in listed if device.get("rc") in (0, *BROKEN) and not device.get("mig")]
    most = _expected(context, len(whole), len(usable))
    if not have or len(have) >= most or context.platform.gvisor:
        return None
    if mig_on(context) and any(one["mig"] for one in known(context) if one["cuda"] is not None):
        return None  # a process that has a MIG instance sees no other GPU
    absent = _absent(context) & {device["number"] for device in whole}
    lost = [gpu_name(context, number) for number in sorted(absent)] or _unlisted(context, usable)
    several = "one of: " if len(lost) > most - len(have) else ""
    evidence = f"CUDA lists {len(have)}, NVML {len(listed)}, {len(usable)} nodes open"
    if len(named_gpus(context)) == most:
        evidence += f", NVIDIA_VISIBLE_DEVICES names {most}"
    if masked(context).value is not None:
        evidence += f", CUDA_VISIBLE_DEVICES={masked(context).value}"
    evidence += f"; missing: {several}{'; '.join(lost) or '?'}"
    # A lost GPU of others is not missing where this process has all that it was named.
    broken = None if 0 < len(named_gpus(context)) <= len(have) else broken_gpu(context, evidence, absent)
    return broken or finding(context, "GS121", evidence, value=len(have), most=most)


def masked(context: Context) -> mask.Mask:
    """Return what CUDA_VISIBLE_DEVICES names, held to the GPUs that NVML lists."""
    listed = context.fact("nvml", "devices")
    uuids = [device.get("uuid", "") for device in listed] if listed else None
    return mask.parse(context.env.get("CUDA_VISIBLE_DEVICES"), uuids)


def hidden_by_choice(context: Context) -> bool:
    """Say whether the mask hides every GPU where none is asked for: an empty one is how people ask for the CPU."""
    mine = masked(context)
    return context.options.require == "none" and mine.hides_all and not mine.bad and not slurm_without_gpus(context)


def _expected(context: Context, whole: int, usable: int) -> int:
    """Return how many GPUs CUDA should list: all, or those of a mask that NVML confirms."""
    named = masked(context)
    if named.value is None:
        given = len(named_gpus(context)) if context.platform.in_container else 0
        return whole if mig_on(context) else max(whole, usable, given)
    unsure = named.bad or named.mig or mig_on(context) or not whole
    return 0 if unsure else len(named.entries)


def _absent(context: Context) -> set[int]:
    """Return NVML's numbers of the GPUs that CUDA does not list."""
    return {one["nvml"] for one in known(context) if one["cuda"] is None and one["nvml"] is not None}


def _unlisted(context: Context, usable: list[str]) -> list[str]:
    """Return the nodes of which NVML knows nothing."""
    hosts = {one["host"] for one in known(context)}
    return [path for path in usable if int(path.rpartition("nvidia")[2]) not in hosts]
