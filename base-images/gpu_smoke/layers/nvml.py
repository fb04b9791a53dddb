"""Layer nvml: the management library, and the GPUs' health as it reports it."""

from __future__ import annotations

import ctypes

from ..calls import Api, open_library
from ..host import clean
from ..isolate import Facts, Session
from ..spec import LayerSpec
from ..verdicts import SKIP, Context, Finding, Layer, fault_finding, finding
from .nodes import gpu_here

NAME, TITLE, LEVEL = "nvml", "management library", "gpu"
SONAME = "libnvidia-ml.so.1"
CODES = {4: "GS401", 9: "GS402", 12: "GS403", 15: "GS404", 16: "GS405", 18: "GS406", 999: "GS407"}
# Hardware slowdown, hardware thermal, hardware power brake (nvmlClocksEventReasons).
SLOWED = 0x8 | 0x40 | 0x80
MOST_DEVICES = 64


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def probe(context: Context, session: Session) -> Facts:
    """Facts: those of ``open_library``, ``rc`` of nvmlInit, ``driver``, ``count``, ``devices``."""
    library, facts = open_library(context, session, SONAME)
    if library is None:
        return facts
    api = Api(library, session, "NVML")
    if api.missing(("nvmlInit_v2", "nvmlSystemGetDriverVersion", "nvmlDeviceGetCount_v2")):
        return {**facts, "loaded": False, "error": "not NVML: nvmlInit_v2 and others are missing"}
    facts["rc"] = api.code("nvmlInit_v2")
    if facts["rc"] == 0:
        text, count = ctypes.create_string_buffer(97), ctypes.c_uint(0)
        api.code("nvmlSystemGetDriverVersion", text, ctypes.c_uint(96))
        facts["driver"] = clean(text.value.decode("utf-8", "backslashreplace"), 96)
        facts["count_rc"] = api.code("nvmlDeviceGetCount_v2", ctypes.byref(count))
        facts["count"] = count.value
        facts["devices"] = [_device(api, n) for n in range(min(count.value, MOST_DEVICES))]
        api.code("nvmlShutdown")
    return facts


def _device(api: Api, number: int) -> Facts:
    handle, uuid = ctypes.c_void_p(), ctypes.create_string_buffer(97)
    device: Facts = {"number": number, "rc": 0}
    if api.missing(("nvmlDeviceGetHandleByIndex_v2",)):
        return device
    device["rc"] = api.code("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(number), ctypes.byref(handle))
    if device["rc"]:
        return device
    if _has(api, "nvmlDeviceGetUUID", handle, uuid, ctypes.c_uint(96)):
        device["uuid"] = clean(uuid.value.decode("utf-8", "backslashreplace"), 96)
    current, pending, errors = ctypes.c_uint(0), ctypes.c_uint(0), ctypes.c_ulonglong(0)
    memory, reasons = _Memory(), ctypes.c_ulonglong(0)
    if _has(api, "nvmlDeviceGetMigMode", handle, ctypes.byref(current), ctypes.byref(pending)):
        device["mig"] = current.value == 1
    if _has(api, "nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory)):
        device["memory"] = {"total": memory.total, "free": memory.free}
    if _has(api, "nvmlDeviceGetTotalEccErrors", handle, ctypes.c_int(1), ctypes.c_int(0), ctypes.byref(errors)):
        device["ecc_uncorrected"] = errors.value
    if _has(api, "nvmlDeviceGetCurrentClocksEventReasons", handle, ctypes.byref(reasons)):
        device["slowed"] = reasons.value & SLOWED
    for key, name in (("pcie", "nvmlDeviceGetCurrPcieLinkWidth"), ("pcie_most", "nvmlDeviceGetMaxPcieLinkWidth")):
        if _has(api, name, handle, ctypes.byref(current)):
            device[key] = current.value
    return device


def _has(api: Api, name: str, *args: object) -> bool:
    return not api.missing((name,)) and api.code(name, *args) == 0


def judge(context: Context) -> Layer:
    """Decide on NVML's own code and on the health of each GPU."""
    layer = Layer(NAME, TITLE, LEVEL)
    facts = context.facts.get(NAME, {})
    layer.path, layer.version = facts.get("path", ""), facts.get("driver", "")
    here = gpu_here(context)
    if facts.get("fault"):
        layer.findings.append(fault_finding(context, facts["fault"], SONAME))
    elif not facts.get("loaded"):
        layer.state, layer.summary = SKIP, "not here"
        if here:
            layer.findings.append(finding(context, "GS408", facts.get("error", ""), reason=facts.get("error", "")))
    else:
        layer.findings += _health(context, facts)
        layer.summary = f"{facts.get('count', 0)} GPU, driver {layer.version}" if facts.get("rc") == 0 else ""
    if not here:
        layer.state, layer.summary = SKIP, "no GPU here"
        for found in layer.findings:
            found.severity = "info"
    return layer.settle()


def _health(context: Context, facts: Facts) -> list[Finding]:
    if facts.get("rc"):
        code = CODES.get(facts["rc"], "GS409")
        return [finding(context, code, f"nvmlInit gave {facts['rc']}", value=facts["rc"])]
    found = []
    if facts.get("count_rc"):
        evidence = f"nvmlDeviceGetCount gave {facts['count_rc']}"
        found.append(finding(context, CODES.get(facts["count_rc"], "GS409"), evidence, value=facts["count_rc"]))
    for device in facts.get("devices", []):
        number = device["number"]
        if device["rc"]:
            # A GPU of another container is refused here; only a lost or broken one is a fault.
            severity = "error" if device["rc"] in (15, 16, 999) else "info"
            code, evidence = CODES.get(device["rc"], "GS409"), f"GPU {number}: NVML gave {device['rc']}"
            found.append(finding(context, code, evidence, severity, value=device["rc"]))
        if device.get("ecc_uncorrected"):
            found.append(finding(context, "GS410", f"GPU {number}: {device['ecc_uncorrected']}", value=number))
        if device.get("slowed"):
            found.append(finding(context, "GS411", f"GPU {number}: reasons {device['slowed']:#x}", value=number))
        if 0 < device.get("pcie", 0) < device.get("pcie_most", 0):
            evidence = f"GPU {number}: x{device['pcie']} of x{device['pcie_most']}"
            found.append(finding(context, "GS412", evidence, value=number))
    return found


# CUDA works without NVML, and NVML without libcuda: neither explains the other.
LAYERS = (LayerSpec(NAME, 60, judge, probe, "nvml", apart_from=("user-driver", "driver-init")),)
