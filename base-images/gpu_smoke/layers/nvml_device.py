"""What NVML says of one GPU: its names, health, modes, fabric, and what the driver wants done with it."""

from __future__ import annotations

import ctypes

from ..calls import Api
from ..explanations import BROKEN
from ..host import clean
from ..isolate import Facts

# Those of nvmlClocksEventReasons that are a fault of cooling or power.
SLOWED = 0x8 | 0x40 | 0x80
FABRIC_V2 = 36 | 2 << 24  # NVML_STRUCT_VERSION(GpuFabricInfo, 2)
RECOVERY_FIELD = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
# The health mask of nvmlGpuFabricInfo_v2_t: where each answer of two bits lies; 1 is the fault.
FABRIC_HEALTH = {"degraded bandwidth": 0, "a route that recovers": 2, "an unhealthy route": 4,
                 "a recovery from an access timeout": 6}  # fmt: skip
# A GPU without a partition (4) is one that is rented by itself.
FABRIC_SETUP = {2: "wrong system GUID", 3: "wrong chassis number", 5: "too few NVLinks",
                6: "incompatible firmware", 7: "wrong location", 8: "wrong state of the GPU"}  # fmt: skip
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
    """nvmlGpuFabricInfo_v2_t and room for the last field of v3."""

    _fields_ = (("version", ctypes.c_uint), ("cluster", ctypes.c_ubyte * 16), ("status", ctypes.c_int),
                ("clique", ctypes.c_uint), ("state", ctypes.c_ubyte), ("health", ctypes.c_uint),
                ("summary", ctypes.c_ubyte))  # fmt: skip


class _Field(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = (("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("when", ctypes.c_longlong),
                ("latency", ctypes.c_longlong), ("kind", ctypes.c_int), ("rc", ctypes.c_int),
                ("value", ctypes.c_ulonglong))  # fmt: skip


def ask(api: Api, number: int) -> Facts:
    """Return the facts of one GPU; a call that the library lacks, or that it refuses, leaves its fact out."""
    handle = ctypes.c_void_p()
    device: Facts = {"number": number, "rc": 0}
    if api.missing(("nvmlDeviceGetHandleByIndex_v2",)):
        return device
    device["rc"] = api.code("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(number), ctypes.byref(handle))
    if not device["rc"]:
        for part in (_names, _health, _modes, _fabric, _recovery, _users):
            part(api, handle, device)
    return device


def _asked(api: Api, device: Facts, name: str, *args: object) -> bool:
    """Call a getter that a library may lack; keep the answer of one that says that the GPU itself is broken."""
    if api.missing((name,)):
        return False
    rc = api.code(name, *args)
    if rc in BROKEN:
        device["answer"] = rc
    return rc == 0


def _text(value: bytes) -> str:
    return clean(value.decode("utf-8", "backslashreplace"), 96)


def _names(api: Api, handle: ctypes.c_void_p, device: Facts) -> None:
    uuid, pci, minor = ctypes.create_string_buffer(97), _Pci(), ctypes.c_uint(0)
    if _asked(api, device, "nvmlDeviceGetUUID", handle, uuid, ctypes.c_uint(96)):
        device["uuid"] = _text(uuid.value)
    if _asked(api, device, "nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci)):
        device["bus"] = _text(pci.address)
    if _asked(api, device, "nvmlDeviceGetMinorNumber", handle, ctypes.byref(minor)):
        device["minor"] = minor.value


def _health(api: Api, handle: ctypes.c_void_p, device: Facts) -> None:
    errors, memory, reasons = ctypes.c_ulonglong(0), _Memory(), ctypes.c_ulonglong(0)
    rows = [ctypes.c_uint(0) for _ in range(4)]
    if _asked(api, device, "nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory)):
        device["memory"] = {"total": memory.total, "free": memory.free}
    kinds = (ctypes.c_int(1), ctypes.c_int(0))
    if _asked(api, device, "nvmlDeviceGetTotalEccErrors", handle, *kinds, ctypes.byref(errors)):
        device["ecc_uncorrected"] = errors.value
    if _asked(api, device, "nvmlDeviceGetRemappedRows", handle, *(ctypes.byref(row) for row in rows)):
        names = ("corrected", "uncorrected", "pending", "failed")
        device["rows"] = {name: row.value for name, row in zip(names, rows, strict=True)}
    if _asked(api, device, "nvmlDeviceGetCurrentClocksEventReasons", handle, ctypes.byref(reasons)):
        device.update(slowed=reasons.value & SLOWED, reasons=reasons.value)


def _modes(api: Api, handle: ctypes.c_void_p, device: Facts) -> None:
    value, pending = ctypes.c_uint(0), ctypes.c_uint(0)
    if _asked(api, device, "nvmlDeviceGetMigMode", handle, ctypes.byref(value), ctypes.byref(pending)):
        device["mig"] = value.value == 1
    for key, name in (("mode", "nvmlDeviceGetComputeMode"), ("persistence", "nvmlDeviceGetPersistenceMode")):
        if _asked(api, device, name, handle, ctypes.byref(value)):
            device[key] = value.value
    if device.get("mig"):
        device["instances"] = _instances(api, handle, device)


def _instances(api: Api, handle: ctypes.c_void_p, device: Facts) -> list[str]:
    """Return the UUIDs of the MIG instances that this process may see."""
    most, instance, uuid, found = ctypes.c_uint(0), ctypes.c_void_p(), ctypes.create_string_buffer(97), []
    _asked(api, device, "nvmlDeviceGetMaxMigDeviceCount", handle, ctypes.byref(most))
    for number in range(min(most.value, 8)):
        place = (ctypes.c_uint(number), ctypes.byref(instance))
        if not _asked(api, device, "nvmlDeviceGetMigDeviceHandleByIndex", handle, *place):
            continue
        if _asked(api, device, "nvmlDeviceGetUUID", instance, uuid, ctypes.c_uint(96)):
            found.append(_text(uuid.value))
    return found


def _fabric(api: Api, handle: ctypes.c_void_p, device: Facts) -> None:
    """Ask for the state of the NVLink fabric by the versioned call: CUDA 14 removes the one without V."""
    fabric = _Fabric(version=FABRIC_V2)
    if _asked(api, device, "nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(fabric)):
        device.update(fabric=fabric.state, fabric_rc=fabric.status, fabric_health=fabric.health)


def _recovery(api: Api, handle: ctypes.c_void_p, device: Facts) -> None:
    """Ask what the driver wants done with the GPU (known from driver 570 on)."""
    field = _Field(field=RECOVERY_FIELD)
    if _asked(api, device, "nvmlDeviceGetFieldValues", handle, ctypes.c_int(1), ctypes.byref(field)) and not field.rc:
        device["recovery"] = field.value & 0xFFFFFFFF


def _users(api: Api, handle: ctypes.c_void_p, device: Facts) -> None:
    found, count = (_User * MOST_USERS)(), ctypes.c_uint(MOST_USERS)
    if _asked(api, device, "nvmlDeviceGetComputeRunningProcesses_v3", handle, ctypes.byref(count), found):
        users = found[: min(count.value, MOST_USERS)]
        device["users"] = [{"pid": one.pid, "memory": one.memory if one.memory < 1 << 60 else 0} for one in users]


def unhealthy(mask: int) -> str:
    """Return what the fabric's health mask calls a fault, "" for nothing."""
    found = [name for name, shift in FABRIC_HEALTH.items() if mask >> shift & 3 == 1]
    return ", ".join([*found, *filter(None, [FABRIC_SETUP.get(mask >> 8 & 0xF)])])
