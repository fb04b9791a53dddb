"""Layer nvml: the management library, and the GPUs' health as it reports it. CUDA works without it."""

from __future__ import annotations

import ctypes

from ..calls import Api, open_library
from ..explanations import BROKEN, computes, recovery
from ..gpus import gpu_name
from ..host import clean
from ..isolate import Facts, Session
from ..numbers import clock_reasons, meaning, named, recovery_text
from ..spec import LayerSpec
from ..verdicts import SKIP, Context, Finding, Layer, fault_finding, finding
from . import nvml_device
from .nodes import gpu_here

NAME, TITLE, LEVEL = "nvml", "management library", ""
SONAME = "libnvidia-ml.so.1"
CODES = {4: "GS401", 8: "GS413", 9: "GS402", 11: "GS414", 12: "GS403", 14: "GS415", 15: "GS404", 16: "GS405",
         17: "GS401", 18: "GS406", 19: "GS416", 999: "GS407"}  # fmt: skip
MOST_DEVICES = 64


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
        facts["devices"] = [nvml_device.ask(api, n) for n in range(min(count.value, MOST_DEVICES))]
        api.code("nvmlShutdown")
    return facts


def evaluate(context: Context) -> Layer:
    """Say what NVML says. Where the GPU computes it is a warning at most: NVML alone decides nothing."""
    layer = Layer(NAME, TITLE, LEVEL)
    facts = context.facts.get(NAME, {})
    layer.path, layer.version = facts.get("path", ""), facts.get("driver", "")
    here = gpu_here(context)
    if facts.get("fault"):
        layer.findings.append(fault_finding(context, facts["fault"], SONAME))
    elif not facts.get("loaded"):
        layer.state, layer.summary = SKIP, "not here"
        if here and not context.platform.jetson and context.fact("user-driver", "loaded"):  # else that is the cause
            layer.findings.append(finding(context, "GS408", facts.get("error", ""), reason=facts.get("error", "")))
    else:
        layer.findings += _health(context, facts)
        layer.summary = f"{facts.get('count', 0)} GPU, driver {layer.version}" if facts.get("rc") == 0 else ""
    if not here:
        layer.state, layer.summary = SKIP, "no GPU here"
    for found in layer.errors if here else layer.findings:
        found.severity = "info" if not here else "warning" if computes(context) else found.severity
    return layer.settle()


def _failed(context: Context, what: str, rc: int, severity: str = "", action: str = "") -> Finding:
    code = CODES.get(rc, "GS409")
    details = {"value": rc, "meaning": meaning("nvml", rc), "action": action}
    return finding(context, code, f"{what} gave {named('nvml', rc)}", severity, **details)


def _health(context: Context, facts: Facts) -> list[Finding]:
    if facts.get("rc"):
        return [_failed(context, "nvmlInit_v2", facts["rc"])]
    found = []
    if facts.get("count_rc"):
        found.append(_failed(context, "nvmlDeviceGetCount_v2", facts["count_rc"]))
    for device in facts.get("devices", []):
        where, rc = gpu_name(context, device["number"]), device["rc"] or device.get("answer")
        worn = _worn(context, device, where)
        if rc:
            # A GPU of another container is refused here; only a lost or broken one is a fault.
            severity = "error" if rc in (*BROKEN, 999) and rc != 14 else "info"
            worn.insert(0, _failed(context, f"{where}: NVML", rc, severity, recovery(device)))
        if device.get("recovery") and not worn:
            told = f"{where}: {recovery_text(device['recovery'])}"
            worn = [finding(context, "GS418", told, action=recovery(device))]
        found += worn
    return found


def _worn(context: Context, device: Facts, where: str) -> list[Finding]:
    found, rows = [], device.get("rows") or {}
    details = {"value": device["number"], "gpu": f"GPU {device['number']}", "action": recovery(device)}
    asks = "; ".join(filter(None, ["", recovery_text(device.get("recovery") or 0)]))
    if device.get("ecc_uncorrected"):
        told = f"{where}: {device['ecc_uncorrected']} since the start{asks}"
        found.append(finding(context, "GS410", told, **details))
    if rows.get("failed") or rows.get("pending"):
        told = f"{where}: remapped rows: {', '.join(f'{name} {count}' for name, count in rows.items())}{asks}"
        found.append(finding(context, "GS417", told, "error" if rows.get("failed") else "warning", **details))
    if device.get("slowed"):
        found.append(finding(context, "GS411", f"{where}: {clock_reasons(device['slowed'])}", **details))
    completed = device.get("fabric") == 3 and not device.get("fabric_rc")
    if completed and (faults := nvml_device.unhealthy(device.get("fabric_health") or 0)):
        found.append(finding(context, "GS419", f"{where}: {faults}", **{**details, "value": faults}))
    return found


# CUDA works without NVML, and NVML without libcuda: neither explains the other.
LAYERS = (LayerSpec(NAME, 60, evaluate, probe, "gpu", independent_of=("user-driver", "driver-init")),)
