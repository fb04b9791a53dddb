"""Layer driver-init: cuInit and the list of devices, in a process that touched nothing before."""

from __future__ import annotations

import ctypes
import os

from .. import mask
from ..calls import Api, error_name
from ..host import clean
from ..isolate import Facts, Session
from ..spec import ALL, LayerSpec
from ..verdicts import SKIP, Context, Finding, Layer, fault_finding, finding
from . import nodes, user_driver
from .module import branch

NAME, TITLE, LEVEL = "driver-init", "driver start", "driver"
MOST_DEVICES = 64
ATTRIBUTES = {"major": 75, "minor": 76, "compute_mode": 20, "ecc": 32}


def probe(context: Context, session: Session) -> Facts:
    """Call cuInit and list the devices.

    Facts: ``driver_version`` (1000 * major + 10 * minor), ``rc`` of cuInit, ``count``, ``count_rc``, ``devices``.
    """
    library = session.kept.get(user_driver.NAME)
    if library is None or context.fact(user_driver.NAME, "fault"):
        return {"not_run": "no usable libcuda"}
    api = Api(library, session, "libcuda")
    version, count = ctypes.c_int(0), ctypes.c_int(0)
    facts: Facts = {
        "version_rc": api.code("cuDriverGetVersion", ctypes.byref(version)),
        "driver_version": version.value,
    }
    facts["count_before"] = api.code("cuDeviceGetCount", ctypes.byref(count))
    facts["rc"] = api.code("cuInit", ctypes.c_uint(0))
    if facts["rc"] == 0:
        facts["count_rc"] = api.code("cuDeviceGetCount", ctypes.byref(count))
        facts["count"] = count.value
        facts["devices"] = [_device(api, n) for n in range(max(0, min(count.value, MOST_DEVICES)))]
    return facts


def _device(api: Api, number: int) -> Facts:
    handle, name, uuid = ctypes.c_int(0), ctypes.create_string_buffer(129), (ctypes.c_ubyte * 16)()
    total = ctypes.c_size_t(0)
    rc = api.code("cuDeviceGet", ctypes.byref(handle), ctypes.c_int(number))
    if rc:
        return {"number": number, "rc": rc}
    api.code("cuDeviceGetName", name, ctypes.c_int(128), handle)
    api.code("cuDeviceTotalMem_v2", ctypes.byref(total), handle)
    device = {"number": number, "rc": 0, "name": clean(name.value.decode("utf-8", "backslashreplace"), 128)}
    if not api.missing(("cuDeviceGetUuid_v2",)) and api.code("cuDeviceGetUuid_v2", ctypes.byref(uuid), handle) == 0:
        digits = bytes(uuid).hex()
        device["uuid"] = "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    for key, attribute in ATTRIBUTES.items():
        value = ctypes.c_int(0)
        api.code("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(attribute), handle)
        device[key] = value.value
    device["memory"] = total.value
    return device


def judge(context: Context) -> Layer:
    """Explain cuInit's code by what the other layers found."""
    layer = Layer(NAME, TITLE, LEVEL)
    facts = context.facts.get(NAME, {})
    if facts.get("fault"):
        layer.findings.append(fault_finding(context, facts["fault"], context.fact(user_driver.NAME, "path", "")))
        return layer.settle()
    version = facts.get("driver_version") or 0
    layer.version = cuda_text(version) if version > 0 else ""
    if "rc" not in facts:
        layer.state, layer.summary = SKIP, facts.get("not_run", "not run")
        return layer.settle()
    if not nodes.gpu_here(context):
        layer.state, layer.summary = SKIP, f"no GPU here; cuInit gave {error_name(facts['rc'])}"
        return layer.settle()
    layer.findings += _explain(context, facts)
    devices = facts.get("devices") or []
    names = sorted({device.get("name", "?") for device in devices})
    layer.summary = f"{len(devices)} x {', '.join(names)}" if devices else f"cuInit gave {error_name(facts['rc'])}"
    return layer.settle()


def cuda_text(version: int) -> str:
    """Return ``13.2`` for 13020."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _explain(context: Context, facts: Facts) -> list[Finding]:
    rc, count = facts["rc"], facts.get("count") or 0
    path = context.fact(user_driver.NAME, "path", "")
    if rc == 0:
        rc = facts.get("count_rc") or next((d["rc"] for d in facts.get("devices", []) if d.get("rc")), 0)
    evidence = f"{'cuInit' if facts['rc'] else 'listing devices'} gave {error_name(rc)}"
    if rc in _SIMPLE:
        return [finding(context, _SIMPLE[rc], evidence, path=path)]
    if rc == 3:
        return [finding(context, "GS301" if _mig(context) else "GS302", evidence)]
    if rc in (803, 804):
        return [_mismatch(context, rc, evidence, path)]
    if rc in (100, 101) or (rc == 0 and count == 0):
        return [_no_device(context, rc, evidence if rc else "the driver lists 0 devices")]
    if rc:
        return [finding(context, "GS315", evidence, name="the code", value=rc)]
    version = facts.get("driver_version") or 0
    if not 0 < count <= MOST_DEVICES or not 5000 <= version < 100000:
        return [finding(context, "GS316", f"{count} devices, CUDA version {version}", path=path)]
    masked = _mask(context)
    if masked.bad:
        details = {"entry": masked.bad, "have": _have(context)}
        return [finding(context, "GS305", f"CUDA_VISIBLE_DEVICES={masked.value}", "warning", **details)]
    return []


_SIMPLE = {34: "GS219", 46: "GS313", 304: "GS303", 802: "GS308", 999: "GS312"}


def _mig(context: Context) -> bool:
    return any(device.get("mig") for device in context.fact("nvml", "devices") or [])


def _mask(context: Context) -> mask.Mask:
    listed = context.fact("nvml", "devices")
    uuids = [device.get("uuid", "") for device in listed] if listed else None
    return mask.parse(context.env.get("CUDA_VISIBLE_DEVICES"), uuids)


def _have(context: Context) -> str:
    listed = context.fact("nvml", "devices") or []
    return f"{len(listed)} GPUs: 0 to {len(listed) - 1}" if listed else "see `nvidia-smi -L`"


def _no_device(context: Context, rc: int, evidence: str) -> Finding:
    masked = _mask(context)
    seen = f"{evidence}; CUDA_VISIBLE_DEVICES={masked.value!r}" if masked.value is not None else evidence
    if masked.hides_all and not masked.bad:
        return finding(context, "GS304", seen, value=masked.value)
    if _mig(context) and masked.value is not None and (len(masked.entries) != 1 or not masked.mig):
        return finding(context, "GS307", seen)
    if masked.mig:
        return finding(context, "GS305", seen, entry=masked.mig[0], have="see `nvidia-smi -L`")
    if masked.bad:
        return finding(context, "GS305", seen, entry=masked.bad, have=_have(context))
    if _mig(context):
        return finding(context, "GS301", seen)
    return finding(context, "GS314" if rc == 101 else "GS306", seen)


def _mismatch(context: Context, rc: int, evidence: str, path: str) -> Finding:
    kernel, own = context.fact("kernel-module", "version") or "", user_driver.file_version(path)
    seen = f"{evidence}; libcuda {own or '?'} from {path or '?'}, kernel module {kernel or '?'}"
    folder = context.host.shown(os.path.dirname(path))
    if rc == 804:
        return finding(context, "GS311", seen, folder=folder)
    compat = user_driver.in_folder(path, "compat")
    if compat and own and kernel and number(own) > number(kernel):
        return finding(context, "GS515", seen, folder=folder)
    return finding(context, "GS309" if compat else "GS310", seen, folder=folder, path=path)


def number(version: str) -> tuple[int, ...]:
    """Return a driver version as numbers, to compare: ``580.65.06`` gives (580, 65, 6)."""
    return tuple(int(part) for part in version.split(".")) if branch(version) else ()


LAYERS = (LayerSpec(NAME, 50, judge, probe, "driver", carries=ALL),)
