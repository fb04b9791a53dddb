"""Which GPU: what CUDA, NVML and the kernel module say of each, put together by its UUID or PCI bus."""

from __future__ import annotations

import re
from typing import Any

from .numbers import clock_reasons, named
from .verdicts import Context

Facts = dict[str, Any]
MODES = {0: "default", 1: "exclusive (thread)", 2: "prohibited", 3: "exclusive"}
FABRIC = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}


def known(context: Context) -> list[Facts]:
    """Return every GPU that somebody lists, with its numbers at CUDA, at NVML and on the host, and what stands out."""
    found = [_of_nvml(device) for device in context.fact("nvml", "devices") or []]
    for device in context.fact("driver-init", "devices") or []:
        entry = next((one for one in found if _is(one, device)), None) or _lone(context, found)
        if entry is None:
            entry = {"nvml": None, "notes": [], "mig": []}
            found.append(entry)
        if entry.get("cuda") is not None:
            continue  # a GPU of which CUDA lists several instances
        uuid = _mig(entry, device) or entry.get("uuid") or device.get("uuid", "")
        entry.update(cuda=device.get("number"), uuid=uuid, name=device.get("name", ""))
        entry["bus"] = entry.get("bus") or device.get("bus", "")
    for listed in context.fact("device-nodes", "listed") or []:
        entry = next((one for one in found if _bus(one.get("bus")) == _bus(listed.get("bus"))), None)
        if entry is not None and entry.get("host") is None and listed.get("minor", "").isdigit():
            entry["host"] = int(listed["minor"])
    # Where CUDA lists GPUs, an entry of NVML without a name or a remark says nothing (Jetson).
    listed = [one for one in found if _named_at_all(one) or one.get("cuda") is not None or not _any_cuda(context)]
    return [_whole(entry) for entry in listed]


def _lone(context: Context, found: list[Facts]) -> Facts | None:
    """Return NVML's only GPU where it has no name and CUDA has one GPU too: they are the same."""
    one_each = len(found) == 1 and len(context.fact("driver-init", "devices") or []) == 1
    return found[0] if one_each and not (found[0].get("uuid") or found[0].get("bus")) else None


def _named_at_all(entry: Facts) -> bool:
    return bool(entry.get("uuid") or entry.get("bus") or entry["notes"])


def _any_cuda(context: Context) -> bool:
    return bool(context.fact("driver-init", "devices"))


def _whole(entry: Facts) -> Facts:
    keys: Facts = {"cuda": None, "nvml": None, "host": None, "uuid": "", "bus": "", "name": "", "mig": [], "notes": []}
    return {**{key: entry.get(key, default) for key, default in keys.items()}, "bus": _bus(entry.get("bus"))}


def _of_nvml(device: Facts) -> Facts:
    entry = {"nvml": device["number"], "uuid": device.get("uuid", ""), "bus": device.get("bus", ""),
             "mig": device.get("instances") or [], "notes": _notes(device)}  # fmt: skip
    return entry if device.get("minor") is None else {**entry, "host": device["minor"]}


def _notes(device: Facts) -> list[str]:
    """Return what is not as on an idle, healthy GPU; findings say which of it is a fault."""
    rows, answer = device.get("rows") or {}, device.get("rc") or device.get("answer")
    found = [f"NVML gives {named('nvml', answer)}"] if answer else []
    if device.get("persistence") == 0:
        found.append("persistence mode off")
    if device.get("mode"):
        found.append(f"compute mode {MODES.get(device['mode'], device['mode'])}")
    if device.get("mig"):
        found.append(f"MIG on, {len(device.get('instances') or [])} instances visible")
    if device.get("ecc_uncorrected"):
        found.append(f"{device['ecc_uncorrected']} uncorrected memory errors")
    found += [f"{count} rows {kind}" for kind, count in rows.items() if count]
    if device.get("fabric"):
        found.append(f"fabric {FABRIC.get(device['fabric'], device['fabric'])}")
    # An idle GPU lowers its clocks by itself (1): that is nothing to tell.
    if (device.get("reasons") or 0) & ~1:
        found.append(f"clocks: {clock_reasons(device['reasons'] & ~1)}")
    return found


def _digits(uuid: object) -> str:
    return re.sub(r"^(GPU|MIG)-", "", str(uuid or "")).lower()


def _bus(text: object) -> str:
    """Return a PCI address as domain of four digits, bus, device and function: NVML and CUDA write it differently."""
    parts = str(text or "").lower().split(":")
    return ":".join([parts[0][-4:], *parts[1:]]) if len(parts) == 3 else str(text or "").lower()


def _mig(entry: Facts, device: Facts) -> str:
    """Return the UUID of the MIG instance that CUDA has as a device, as NVML writes it."""
    return next((uuid for uuid in entry.get("mig") or [] if _digits(uuid) == _digits(device.get("uuid"))), "")


def _is(entry: Facts, device: Facts) -> bool:
    if _mig(entry, device) or (device.get("uuid") and _digits(entry.get("uuid")) == _digits(device["uuid"])):
        return True
    return bool(device.get("bus")) and _bus(entry.get("bus")) == _bus(device["bus"])


def described(entry: Facts) -> str:
    """Return what names a GPU beside its number: the host's number, UUID, PCI bus."""
    number = entry["nvml"] if entry["cuda"] is None else entry["cuda"]
    host = f"host's GPU {entry['host']}" if entry["host"] not in (None, number) else ""
    return ", ".join(filter(None, [host, entry["uuid"], entry["bus"]]))


def gpu_name(context: Context, number: int) -> str:
    """Return NVML's number of a GPU with what names it on the host."""
    return _named(number, next((one for one in known(context) if one["nvml"] == number), None))


def cuda_name(context: Context, number: int) -> str:
    """Return CUDA's number of a GPU with what names it on the host: a mask changes the numbers."""
    return _named(number, next((one for one in known(context) if one["cuda"] == number), None))


def _named(number: int, entry: Facts | None) -> str:
    told = described(entry) if entry else ""
    return f"GPU {number} ({told})" if told else f"GPU {number}"
