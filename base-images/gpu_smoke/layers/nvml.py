"""Layer nvml: the management library, and the GPUs' health as it reports it."""

from __future__ import annotations

import ctypes

from ..calls import Api, open_library
from ..errors import NVML, nvml_text
from ..gpus import gpu_name
from ..host import clean
from ..isolate import Facts, Session
from ..spec import LayerSpec
from ..verdicts import SKIP, Context, Finding, Layer, fault_finding, finding
from ..witness import BROKEN
from .nodes import gpu_here

NAME, TITLE, LEVEL = "nvml", "management library", "gpu"
SONAME = "libnvidia-ml.so.1"
CODES = {4: "GS401", 8: "GS413", 9: "GS402", 11: "GS414", 12: "GS403", 14: "GS415", 15: "GS404", 16: "GS405",
         17: "GS401", 18: "GS406", 19: "GS416", 999: "GS407"}  # fmt: skip
# nvmlClocksEventReasons; those of the hardware are a fault of cooling or power.
REASONS = {0x2: "clocks set by an application", 0x4: "power limit", 0x8: "hardware slowdown",
           0x10: "synchronised group", 0x20: "software thermal limit", 0x40: "hardware thermal limit",
           0x80: "power brake", 0x100: "clocks of the display"}  # fmt: skip
SLOWED = 0x8 | 0x40 | 0x80
MOST_DEVICES = 64
MOST_USERS = 16


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _User(ctypes.Structure):
    _fields_ = (("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong), ("instance", ctypes.c_uint),
                ("compute", ctypes.c_uint))  # fmt: skip


class _Pci(ctypes.Structure):
    _fields_ = (("legacy", ctypes.c_char * 16), *((name, ctypes.c_uint) for name in ("domain", "bus", "device", "id",
                "subsystem")), ("address", ctypes.c_char * 32))  # fmt: skip


class _Fabric(ctypes.Structure):
    _fields_ = (("cluster", ctypes.c_ubyte * 16), ("status", ctypes.c_int), ("clique", ctypes.c_uint),
                ("state", ctypes.c_ubyte))  # fmt: skip


class _Confidential(ctypes.Structure):
    _fields_ = (("environment", ctypes.c_uint), ("feature", ctypes.c_uint), ("tools", ctypes.c_uint))


def probe(context: Context, session: Session) -> Facts:
    """Facts: those of ``open_library``, ``rc`` of nvmlInit, ``driver``, ``count``, ``devices``."""
    library, facts = open_library(context, session, SONAME)
    if library is None:
        return facts
    api = Api(library, session, "NVML")
    if api.missing(("nvmlInit_v2", "nvmlSystemGetDriverVersion", "nvmlDeviceGetCount_v2")):
        return {**facts, "loaded": False, "error": "not NVML: nvmlInit_v2 and others are missing"}
    session.kept[NAME] = library
    facts["rc"] = api.code("nvmlInit_v2")
    if facts["rc"] == 0:
        text, count = ctypes.create_string_buffer(97), ctypes.c_uint(0)
        api.code("nvmlSystemGetDriverVersion", text, ctypes.c_uint(96))
        facts["driver"] = clean(text.value.decode("utf-8", "backslashreplace"), 96)
        facts["count_rc"] = api.code("nvmlDeviceGetCount_v2", ctypes.byref(count))
        facts["count"] = count.value
        facts["devices"] = [_device(api, n) for n in range(min(count.value, MOST_DEVICES))]
        facts.update(_confidential(api))
        api.code("nvmlShutdown")
    return facts


def again(context: Context, session: Session) -> list[Facts]:
    """Ask for each GPU once more, as after a load; nothing where NVML did not answer the first time."""
    library = session.kept.get(NAME)
    if library is None or context.fact(NAME, "rc") != 0:
        return []
    api, count = Api(library, session, "NVML"), ctypes.c_uint(0)
    if api.code("nvmlInit_v2") or api.code("nvmlDeviceGetCount_v2", ctypes.byref(count)):
        return []
    devices = [_device(api, number) for number in range(min(count.value, MOST_DEVICES))]
    api.code("nvmlShutdown")
    return devices


def worn_since(context: Context, after: list[Facts]) -> list[Finding]:
    """Return what a load did to the GPUs: errors that were counted meanwhile, clocks that were lowered."""
    found, before = [], {device["number"]: device for device in context.fact(NAME, "devices") or []}
    for device in after:
        where, first = gpu_name(context, device["number"]), before.get(device["number"], {})
        rc, counted = device["rc"] or device.get("answer"), device.get("ecc_uncorrected", 0)
        if rc in BROKEN:
            found.append(_failed(context, f"{where}: NVML, after the load,", rc, "error"))
        if counted > first.get("ecc_uncorrected", 0):
            evidence = f"{where}: {first.get('ecc_uncorrected', 0)} before the load, {counted} after it"
            found.append(finding(context, "GS410", evidence, "error", value=device["number"]))
        if device.get("slowed") and not first.get("slowed"):
            evidence = f"{where}: under load: {in_words(device['slowed'])}"
            found.append(finding(context, "GS411", evidence, value=device["number"]))
    return found


def in_words(reasons: int) -> str:
    """Return what lowers the clocks, in words (nvmlClocksEventReasons)."""
    named = [name for bit, name in REASONS.items() if reasons & bit]
    return f"{', '.join(named) or 'unknown'} ({reasons:#x})"


def _confidential(api: Api) -> Facts:
    """Return whether confidential computing is on, and whether its GPUs were released for work."""
    state, ready = _Confidential(), ctypes.c_uint(1)
    if not _has(api, "nvmlSystemGetConfComputeState", ctypes.byref(state)) or not state.feature:
        return {}
    known = _has(api, "nvmlSystemGetConfComputeGpusReadyState", ctypes.byref(ready))
    return {"confidential": True, "confidential_ready": bool(ready.value) or not known}


def _device(api: Api, number: int) -> Facts:
    handle = ctypes.c_void_p()
    device: Facts = {"number": number, "rc": 0}
    if api.missing(("nvmlDeviceGetHandleByIndex_v2",)):
        return device
    device["rc"] = api.code("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(number), ctypes.byref(handle))
    if device["rc"]:
        return device
    _name(api, handle, device)
    _health_facts(api, handle, device)
    _modes(api, handle, device)
    return device


def _ask(api: Api, device: Facts, name: str, *args: object) -> bool:
    """Call a getter that a library may lack; keep the answer of one that says that the GPU itself is broken."""
    if api.missing((name,)):
        return False
    rc = api.code(name, *args)
    if rc in BROKEN:
        device["answer"] = rc
    return rc == 0


def _text(value: bytes) -> str:
    return clean(value.decode("utf-8", "backslashreplace"), 96)


def _name(api: Api, handle: ctypes.c_void_p, device: Facts) -> None:
    uuid, pci, minor = ctypes.create_string_buffer(97), _Pci(), ctypes.c_uint(0)
    if _ask(api, device, "nvmlDeviceGetUUID", handle, uuid, ctypes.c_uint(96)):
        device["uuid"] = _text(uuid.value)
    if _ask(api, device, "nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci)):
        device["bus"] = _text(pci.address)
    if _ask(api, device, "nvmlDeviceGetMinorNumber", handle, ctypes.byref(minor)):
        device["minor"] = minor.value


def _health_facts(api: Api, handle: ctypes.c_void_p, device: Facts) -> None:
    current, errors, memory, reasons = ctypes.c_uint(0), ctypes.c_ulonglong(0), _Memory(), ctypes.c_ulonglong(0)
    rows = [ctypes.c_uint(0) for _ in range(4)]
    if _ask(api, device, "nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory)):
        device["memory"] = {"total": memory.total, "free": memory.free}
    kinds = (ctypes.c_int(1), ctypes.c_int(0))
    if _ask(api, device, "nvmlDeviceGetTotalEccErrors", handle, *kinds, ctypes.byref(errors)):
        device["ecc_uncorrected"] = errors.value
    if _ask(api, device, "nvmlDeviceGetRemappedRows", handle, *(ctypes.byref(row) for row in rows)):
        device["rows"] = dict(
            zip(("corrected", "uncorrected", "pending", "failed"), (row.value for row in rows), strict=False)
        )
    if _ask(api, device, "nvmlDeviceGetCurrentClocksEventReasons", handle, ctypes.byref(reasons)):
        device.update(slowed=reasons.value & SLOWED, reasons=reasons.value)
    for key, name in (("pcie", "nvmlDeviceGetCurrPcieLinkWidth"), ("pcie_most", "nvmlDeviceGetMaxPcieLinkWidth")):
        if _ask(api, device, name, handle, ctypes.byref(current)):
            device[key] = current.value


def _modes(api: Api, handle: ctypes.c_void_p, device: Facts) -> None:
    value, pending, fabric = ctypes.c_uint(0), ctypes.c_uint(0), _Fabric()
    if _ask(api, device, "nvmlDeviceGetMigMode", handle, ctypes.byref(value), ctypes.byref(pending)):
        device["mig"] = value.value == 1
    for key, name in (("mode", "nvmlDeviceGetComputeMode"), ("persistence", "nvmlDeviceGetPersistenceMode")):
        if _ask(api, device, name, handle, ctypes.byref(value)):
            device[key] = value.value
    if _ask(api, device, "nvmlDeviceGetGpuFabricInfo", handle, ctypes.byref(fabric)):
        device.update(fabric=fabric.state, fabric_rc=fabric.status)
    if device.get("mig"):
        device["instances"] = _instances(api, handle, device)
    found, count = (_User * MOST_USERS)(), ctypes.c_uint(MOST_USERS)
    if _ask(api, device, "nvmlDeviceGetComputeRunningProcesses_v3", handle, ctypes.byref(count), found):
        users = found[: min(count.value, MOST_USERS)]
        device["users"] = [{"pid": one.pid, "memory": one.memory if one.memory < 1 << 60 else 0} for one in users]


def _instances(api: Api, handle: ctypes.c_void_p, device: Facts) -> list[str]:
    """Return the UUIDs of the MIG instances that this process may see."""
    most, instance, uuid, found = ctypes.c_uint(0), ctypes.c_void_p(), ctypes.create_string_buffer(97), []
    _ask(api, device, "nvmlDeviceGetMaxMigDeviceCount", handle, ctypes.byref(most))
    for number in range(min(most.value, 8)):
        place = (ctypes.c_uint(number), ctypes.byref(instance))
        named = (uuid, ctypes.c_uint(96))
        if _ask(api, device, "nvmlDeviceGetMigDeviceHandleByIndex", handle, *place) and _ask(
            api, device, "nvmlDeviceGetUUID", instance, *named
        ):
            found.append(_text(uuid.value))
    return found


def _has(api: Api, name: str, *args: object) -> bool:
    return not api.missing((name,)) and api.code(name, *args) == 0


def evaluate(context: Context) -> Layer:
    """Decide on NVML's own code and on the health of each GPU."""
    layer = Layer(NAME, TITLE, LEVEL)
    facts = context.facts.get(NAME, {})
    layer.path, layer.version = facts.get("path", ""), facts.get("driver", "")
    here = gpu_here(context)
    if facts.get("fault"):
        layer.findings.append(fault_finding(context, facts["fault"], SONAME))
    elif not facts.get("loaded"):
        layer.state, layer.summary = SKIP, "not here"
        if context.platform.jetson:
            layer.level, layer.summary = "", "Jetson has none"
        elif here:
            layer.findings.append(finding(context, "GS408", facts.get("error", ""), reason=facts.get("error", "")))
    else:
        layer.findings += _health(context, facts)
        layer.summary = f"{facts.get('count', 0)} GPU, driver {layer.version}" if facts.get("rc") == 0 else ""
    if not here:
        layer.state, layer.summary = SKIP, "no GPU here"
        for found in layer.findings:
            found.severity = "info"
    return layer.settle()


def _failed(context: Context, what: str, rc: int, severity: str = "") -> Finding:
    code = CODES.get(rc, "GS409")
    told = f"; {NVML[rc].means}" if rc in NVML and NVML[rc].means and code == "GS409" else ""
    return finding(context, code, f"{what} gave {nvml_text(rc)}{told}", severity, value=rc)


def _health(context: Context, facts: Facts) -> list[Finding]:
    if facts.get("rc"):
        return [_failed(context, "nvmlInit_v2", facts["rc"])]
    found = []
    if facts.get("count_rc"):
        found.append(_failed(context, "nvmlDeviceGetCount_v2", facts["count_rc"]))
    for device in facts.get("devices", []):
        where, rc = gpu_name(context, device["number"]), device["rc"] or device.get("answer")
        if rc:
            # A GPU of another container is refused here; only a lost or broken one is a fault.
            severity = "error" if rc in (*BROKEN, 999) and rc != 14 else "info"
            found.append(_failed(context, f"{where}: NVML", rc, severity))
        found += _worn(context, device, where)
    return found


def _worn(context: Context, device: Facts, where: str) -> list[Finding]:
    number, found, rows = device["number"], [], device.get("rows") or {}
    if device.get("ecc_uncorrected"):
        found.append(finding(context, "GS410", f"{where}: {device['ecc_uncorrected']} since the start", value=number))
    if rows.get("failed") or rows.get("pending"):
        told = ", ".join(f"{name} {count}" for name, count in rows.items())
        severity = "error" if rows.get("failed") else "warning"
        found.append(finding(context, "GS417", f"{where}: remapped rows: {told}", severity, value=number))
    if device.get("slowed"):
        found.append(finding(context, "GS411", f"{where}: {in_words(device['slowed'])}", value=number))
    if 0 < device.get("pcie", 0) < device.get("pcie_most", 0):
        evidence = f"{where}: x{device['pcie']} of x{device['pcie_most']}"
        found.append(finding(context, "GS412", evidence, value=number))
    return found


# CUDA works without NVML, and NVML without libcuda: neither explains the other.
LAYERS = (LayerSpec(NAME, 60, evaluate, probe, "gpu", apart_from=("user-driver", "driver-init")),)
