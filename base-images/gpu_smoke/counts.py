"""How many GPUs there should be: what nodes, NVML, CUDA and a mask say beside each other."""

from __future__ import annotations

import re

from . import mask
from .explanations import BROKEN, mig_on, named_gpus, slurm_without_gpus
from .gpus import gpu_name, known
from .verdicts import Context, Finding, finding


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
    lost = _lost(context, {device["number"] for device in whole}, usable)
    several = "one of: " if len(lost) > most - len(have) else ""
    evidence = f"CUDA lists {len(have)}, NVML {len(listed)}, {len(usable)} nodes open"
    if len(named_gpus(context)) == most:
        evidence += f", NVIDIA_VISIBLE_DEVICES names {most}"
    if masked(context).value is not None:
        evidence += f", CUDA_VISIBLE_DEVICES={masked(context).value}"
    evidence += f"; missing: {several}{'; '.join(lost) or '?'}"
    return finding(context, "GS121", evidence, value=len(have), most=most)


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


def _lost(context: Context, whole: set[int], usable: list[str]) -> list[str]:
    """Name the GPUs that CUDA lacks: those that NVML lists, else the nodes of which NVML knows nothing."""
    entries = known(context)
    hosts = {one["host"] for one in entries}
    found = [gpu_name(context, one["nvml"]) for one in entries if one["cuda"] is None and one["nvml"] in whole]
    return found or [path for path in usable if int(path.rpartition("nvidia")[2]) not in hosts]
