"""Layer driver-init: cuInit and the list of devices, in a process that touched nothing before."""

from __future__ import annotations

import ctypes
import os
import re
import time

from .. import explanations, hardware, requested_gpus
from ..calls import Api
from ..drivers import file_version, in_folder, mismatch, number
from ..host import clean
from ..isolate import Facts, Session
from ..numbers import meaning, named
from ..spec import ALL, LayerSpec
from ..verdicts import SKIP, Context, Finding, Layer, fault_finding, finding
from . import nodes, user_driver

NAME, TITLE, LEVEL = "driver-init", "driver start", "driver"
MOST_DEVICES = 64
SLOW_S = 1.0
ATTRIBUTES = {"major": 75, "minor": 76, "compute_mode": 20, "ecc": 32, "integrated": 18, "host_tables": 100,
              "processors": 16}  # fmt: skip


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
    began = time.monotonic()
    facts["rc"] = api.code("cuInit", ctypes.c_uint(0))
    facts["start_s"] = round(time.monotonic() - began, 3)
    if facts["rc"]:
        facts["rc_name"] = _own_name(api, facts["rc"])
    else:
        facts["count_rc"] = api.code("cuDeviceGetCount", ctypes.byref(count))
        facts["count"] = count.value
        facts["devices"] = [_device(api, n) for n in range(max(0, min(count.value, MOST_DEVICES)))]
    return facts


def _own_name(api: Api, rc: int) -> str:
    """Return the driver's own name for a code, which may be newer than our table; "" when it has none."""
    text = ctypes.c_char_p()
    if api.missing(("cuGetErrorName",)) or api.code("cuGetErrorName", ctypes.c_int(rc), ctypes.byref(text)):
        return ""
    return clean((text.value or b"").decode("utf-8", "backslashreplace"), 80)


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
    bus = ctypes.create_string_buffer(33)
    if (
        not api.missing(("cuDeviceGetPCIBusId",))
        and api.code("cuDeviceGetPCIBusId", bus, ctypes.c_int(32), handle) == 0
    ):
        device["bus"] = clean(bus.value.decode("utf-8", "backslashreplace"), 32)
    for key, attribute in ATTRIBUTES.items():
        value = ctypes.c_int(0)
        api.code("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(attribute), handle)
        device[key] = value.value
    device["memory"] = total.value
    return device


def evaluate(context: Context) -> Layer:
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
        layer.state, layer.summary = SKIP, f"no GPU here; cuInit gave {named('cuda', facts['rc'])}"
        return layer.settle()
    layer.findings += _explain(context, facts)
    devices = facts.get("devices") or []
    names = sorted({device.get("name", "?") for device in devices})
    layer.summary = f"{len(devices)} x {', '.join(names)}" if devices else f"cuInit gave {named('cuda', facts['rc'])}"
    if not devices and requested_gpus.hidden_by_choice(context):
        layer.state, layer.summary = SKIP, "CUDA_VISIBLE_DEVICES hides every GPU"
    return layer.settle()


def cuda_text(version: int) -> str:
    """Return ``13.2`` for 13020."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _explain(context: Context, facts: Facts) -> list[Finding]:
    rc, count = facts["rc"], facts.get("count") or 0
    path = context.fact(user_driver.NAME, "path", "")
    if rc == 0:
        rc = facts.get("count_rc") or next((d["rc"] for d in facts.get("devices", []) if d.get("rc")), 0)
    evidence = f"{'cuInit' if facts['rc'] else 'listing devices'} gave {named('cuda', rc, facts.get('rc_name', ''))}"
    if rc == 34:
        return [finding(context, "GS219", evidence, path=path)]
    if rc or count == 0:
        return _failed(context, rc, evidence if rc else "the driver lists 0 devices", path)
    version = facts.get("driver_version") or 0
    if not 0 < count <= MOST_DEVICES or not 5000 <= version < 100000:
        return [finding(context, "GS316", f"{count} devices, CUDA version {version}", path=path)]
    masked = requested_gpus.masked(context)
    if masked.bad:
        details = {"entry": masked.bad, "problem": masked.problem, "listed": _have(context)}
        return [finding(context, "GS305", f"CUDA_VISIBLE_DEVICES={masked.value}", "warning", **details)]
    return [one for one in (requested_gpus.uncounted(context), _slow(context, facts)) if one]


def _slow(context: Context, facts: Facts) -> Finding | None:
    """Say when the GPU had to be started first; every first user pays for it."""
    opened = max((context.fact("device-nodes", "opened_s") or {}).values(), default=0.0)
    seconds = max(opened, facts.get("start_s") or 0.0)
    idle = [d["number"] for d in context.fact("nvml", "devices") or [] if d.get("persistence") == 0]
    if seconds < SLOW_S:
        return None
    told = f"; persistence mode is off on GPU {', '.join(map(str, idle))}" if idle else ""
    return finding(context, "GS122", f"starting the GPU took {seconds:.1f} s{told}", value=f"{seconds:.1f} s")


_SIMPLE = {46: "GS313", 102: "GS324", 304: "GS303", 800: "GS303", 302: "GS310", 303: "GS310", 999: "GS312"}


def _failed(context: Context, rc: int, evidence: str, path: str) -> list[Finding]:
    """Name the causes that other facts show; without any, what the code itself means."""
    seen = "; ".join(filter(None, [_with_users(context, rc, evidence), explanations.said_by_nvml(context, rc)]))
    found = explanations.explain_init_failure(context, rc, seen)
    own: Finding | None = None
    if rc in (803, 804):
        own = mismatch(context, rc, evidence, path)
    elif rc in (100, 999, 36) and not found and (refused := _compat(context, evidence, path)):
        own = refused
    elif rc in (0, 100, 101):
        own = _no_device(context, rc, seen)
        own.severity = "warning" if own.code == "GS304" and requested_gpus.hidden_by_choice(context) else "error"
        if own.code in ("GS304", "GS305", "GS307", "GS117"):
            return [own, *found]
    elif rc == 3:
        nobody_made_any = explanations.mig_on(context) and not explanations.mig_instances(context)
        own = finding(context, "GS301", evidence) if nobody_made_any else _hmm(context, evidence)
    elif rc == 500 and context.platform.wsl:
        own = finding(context, "GS329", f"{evidence}; {_wsl_parts(context)}")
    elif rc == 2 and not found and not explanations.users(context) and hardware.is_virtual(context):
        own = finding(context, "GS333", seen)
    elif rc in _SIMPLE:
        own = finding(context, _SIMPLE[rc], seen, path=path)
    elif not found:
        own = finding(context, "GS315", seen, value=rc, meaning=meaning("cuda", rc, context.fact(NAME, "rc_name", "")))
    # What explains the failure is the cause; the code's own story would only repeat it.
    return found or ([own] if own else [])


def _hmm(context: Context, evidence: str) -> Finding:
    """Explain a start that is refused in a fresh process: HMM, where the machine shows that it is on."""
    told = hardware.hmm(context)
    return finding(context, "GS330", f"{evidence}; {told}") if told else finding(context, "GS302", evidence)


WSL_PART = "libnvdxgdmal.so.1"


def _wsl_parts(context: Context) -> str:
    """Say whether the part of the Windows driver is here that its newer branches need (since 555)."""
    found = context.host.files(f"/usr/lib/wsl/drivers/*/{WSL_PART}") + context.host.files(
        f"/usr/lib/wsl/lib/{WSL_PART}"
    )
    return f"{WSL_PART} is {found[0]}" if found else f"{WSL_PART} is not in /usr/lib/wsl"


def _with_users(context: Context, rc: int, evidence: str) -> str:
    held = explanations.users(context) if rc in (2, 46) else ""
    return f"{evidence}; NVML: {held}" if held else evidence


def _have(context: Context) -> str:
    listed = context.fact("nvml", "devices") or []
    return f"{len(listed)} GPUs: 0 to {len(listed) - 1}" if listed else "see `nvidia-smi -L`"


def _no_device(context: Context, rc: int, evidence: str) -> Finding:
    masked = requested_gpus.masked(context)
    seen = f"{evidence}; CUDA_VISIBLE_DEVICES={masked.value!r}" if masked.value is not None else evidence
    mig = explanations.mig_on(context)
    if masked.hides_all and not masked.bad:
        slurm = (
            requested_gpus.explain_missing_gpu(context, seen) if requested_gpus.slurm_without_gpus(context) else None
        )
        return slurm or finding(context, "GS304", seen, value=masked.value)
    if mig and masked.value is not None and (len(masked.entries) != 1 or not masked.mig):
        return finding(context, "GS307", seen)
    if masked.mig and not _is_listed(context, masked.mig[0]):
        return finding(context, "GS305", seen, entry=masked.mig[0], problem="does not exist", listed=_slices(context))
    if masked.bad:
        return finding(context, "GS305", seen, entry=masked.bad, problem=masked.problem, listed=_have(context))
    if mig and not explanations.mig_instances(context):
        return finding(context, "GS301", seen)
    listed = context.fact("nvml", "count")
    told = f"; NVML lists {listed}" if listed is not None and not context.fact("nvml", "rc") else ""
    if rc != 101 and listed and _own_node(context) and not context.platform.wsl:
        return _hmm(context, seen + told) if hardware.hmm(context) else finding(context, "GS328", seen + told)
    return finding(context, "GS314" if rc == 101 else "GS306", seen + told)


def _own_node(context: Context) -> bool:
    """Say whether a GPU's node opens for this process: then the GPU was given."""
    given = context.fact(nodes.NAME, "nodes") or {}
    return any(re.search(r"nvidia\d+$", path) and error is None for path, error in given.items())


def _is_listed(context: Context, instance: str) -> bool:
    """Say whether NVML lists a MIG instance by this UUID, or by its beginning."""
    return any(uuid.lower().startswith(instance.lower()) for uuid in explanations.mig_instances(context))


def _slices(context: Context) -> str:
    """Return the MIG instances that NVML lists, as the end of a fix line."""
    return ", ".join(explanations.mig_instances(context)[:4]) or "see `nvidia-smi -L`"


def _compat(context: Context, evidence: str, path: str) -> Finding | None:
    """Return the finding of a compat library that is newer than the module, and finds no GPU that NVML lists."""
    kernel, own = context.fact("kernel-module", "version") or "", file_version(path)
    masked = requested_gpus.masked(context).value is not None
    if masked or not in_folder(path, "compat") or not number(own) > number(kernel):
        return None
    seen = f"{evidence}; libcuda {own} from {path}, kernel module {kernel}; NVML lists {context.fact('nvml', 'count')}"
    return finding(context, "GS515", seen, folder=context.host.shown(os.path.dirname(path)))


LAYERS = (LayerSpec(NAME, 50, evaluate, probe, "gpu", carries=ALL),)
