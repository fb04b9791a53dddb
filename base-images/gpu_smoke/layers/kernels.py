"""Layer kernels: a PTX kernel that every GPU can run, and one stamped with the image's PTX version."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from .. import explanations, gpus
from ..calls import Api, CallFailed
from ..isolate import Facts, Session
from ..numbers import named as number_text
from ..spec import ALL, LayerSpec
from ..verdicts import SKIP, Context, Finding, Layer, fault_finding, finding
from . import driver_init, kernel_text, user_driver
from .running import Work, attempt

NAME, TITLE, LEVEL = "kernels", "PTX kernels", "gpu"
MOST_NAMED = 8
NOT_RUN: Facts = {"not_run": "no usable device"}


def chain(text: str) -> Work:
    """Return the work of plain arithmetic, as one of its texts."""
    return Work(text, b"gpu_smoke", kernel_text.ROUNDS, *kernel_text.chain())


def probe(context: Context, session: Session) -> Facts:
    """Run the kernels on every chosen device; facts: ``devices``, each with answers of ``universal`` and others."""
    count = usable(context)
    if not count:
        return dict(NOT_RUN)
    cuda = context.fact("runtime", "runtime_version") or 0
    if not cuda and context.row.cuda:
        cuda = context.row.cuda[0] * 1000 + context.row.cuda[1] * 10
    api = started(session)
    return {"devices": [_on_device(context, api, number, cuda) for number in range(count)]}


def started(session: Session) -> Api:
    """Return libcuda after its start, which costs nothing where another layer has done it in this process."""
    api = Api(ctypes.CDLL(user_driver.SONAME), session, "libcuda")
    api.check("cuInit", ctypes.c_uint(0))
    return api


def failed_call(context: Context, device: Facts, where: str, fallback: str, **details: Any) -> list[Finding]:
    """Return what explains the call of an answer that failed, the likeliest first."""
    evidence = f"{where}: {device['call']} gave {number_text('cuda', device['rc'])}" + details.pop("after", "")
    return explanations.explain_gpu_failure(context, device["rc"], evidence, fallback, **details)


def processors(context: Context, number: int) -> int:
    """Return how many multiprocessors a device has, 0 when the driver does not tell."""
    devices = context.fact(driver_init.NAME, "devices") or []
    told = next((d.get("processors") or 0 for d in devices if d.get("number") == number), 0)
    return told if 0 < told < 4096 else 0


def usable(context: Context) -> int:
    """Return how many devices to test: the chosen number, at most those that the driver lists; 0 when none works."""
    if context.fact("driver-init", "rc") != 0 or context.fact("driver-init", "fault"):
        return 0
    if context.hung(NAME, "memory", "runtime"):
        return 0
    listed = len(context.fact("driver-init", "devices") or [])
    return min(context.options.gpus or listed, listed)


@contextlib.contextmanager
def primary_context(api: Api, number: int) -> Iterator[ctypes.c_void_p]:
    """Make the primary context of a device current, and release it."""
    device, handle = ctypes.c_int(0), ctypes.c_void_p()
    api.check("cuDeviceGet", ctypes.byref(device), ctypes.c_int(number))
    api.check("cuDevicePrimaryCtxRetain", ctypes.byref(handle), device)
    try:
        api.check("cuCtxSetCurrent", handle)
        yield handle
    finally:
        # A released context must not stay current: the runtime's next call would find it destroyed (709).
        api.code("cuCtxSetCurrent", None)
        api.code("cuDevicePrimaryCtxRelease_v2", device)


def _on_device(context: Context, api: Api, number: int, cuda: int) -> Facts:
    answer: Facts = {"number": number}
    try:
        with primary_context(api, number):
            here = answer["processors"] = processors(context, number)
            answer["universal"] = attempt(api, chain(kernel_text.universal()), here)
            if kernel_text.ptx_version(cuda):
                answer["stamped"] = _stamped(context, api, cuda, here)
    except CallFailed as error:
        answer["universal"] = {"call": error.call, "rc": error.rc}
    return answer


def _stamped(context: Context, api: Api, cuda: int, here: int) -> Facts:
    """Try the toolkit's PTX version; a driver at least as new as the toolkit settles what that version really is."""
    asked = kernel_text.ptx_version(cuda)
    answer = {"version": asked, **attempt(api, chain(kernel_text.stamped(asked)), here)}
    driver_is_newer = (context.fact("driver-init", "driver_version") or 0) >= cuda
    base, minor = (int(part) for part in asked.split("."))
    while answer["rc"] == 222 and driver_is_newer and minor > 0:
        minor -= 1
        answer = {"version": f"{base}.{minor}", **attempt(api, chain(kernel_text.stamped(f"{base}.{minor}")), here)}
    return answer


def judge_devices(context: Context, layer: Layer, judge_one: Callable[[Context, Facts], list[Finding]]) -> list[Facts]:
    """Judge each device's answer with ``judge_one``; return the answers, none when the probe died or did not run."""
    facts = context.facts.get(layer.name, {})
    devices = facts.get("devices") or []
    if facts.get("fault"):
        layer.findings.append(fault_finding(context, facts["fault"], context.fact("user-driver", "path", "")))
    elif not devices:
        layer.state, layer.summary = SKIP, facts.get("not_run", "not run")
    for device in devices:
        layer.findings += judge_one(context, device)
    return devices


def evaluate(context: Context) -> Layer:
    """Decide on the kernels of every device."""
    layer = Layer(NAME, TITLE, LEVEL)
    devices = judge_devices(context, layer, _judge_device)
    if not devices:
        return layer.settle()
    stamped = (devices[0].get("stamped") or {}).get("version")
    layer.summary = f"{len(devices)} devices: PTX 4.2" + (f" and {stamped}" if stamped else "") + _reached(devices)
    return layer.settle()


def _reached(devices: list[Facts]) -> str:
    """Say how many multiprocessors took part; a share of a GPU (MPS) may reach fewer than it has."""
    parts = [(one["universal"].get("reached", 0), one.get("processors") or 0) for one in devices]
    reached, here = sum(part[0] for part in parts), sum(part[1] for part in parts)
    return f" on {reached} of {here} multiprocessors" if reached < here else f" on {reached} multiprocessors"


def _judge_device(context: Context, device: Facts) -> list[Finding]:
    where = gpus.cuda_name(context, device["number"])
    found = _explain(context, device, "universal", f"{where}, PTX 4.2")
    if found:
        return found
    stamped = device.get("stamped")
    if stamped:
        if stamped["rc"] == 222:
            evidence = f"{where}: PTX {stamped['version']} gives {number_text('cuda', 222)}, PTX 4.2 runs"
            severity = "warning" if _has_sass(context, device["number"]) is not False else "error"
            return [*found, finding(context, "GS702", evidence, severity, value=stamped["version"])]
        found += _explain(context, device, "stamped", f"{where}, PTX {stamped['version']}")
    return found


def _explain(context: Context, device: Facts, kernel: str, what: str, wrong: str = "GS704") -> list[Finding]:
    answer, number = device[kernel], device["number"]
    rc = answer["rc"]
    if rc == 0:
        if not answer["wrong"]:
            return []
        evidence = f"{what}: {answer['wrong']} of {answer['count']} values are wrong, on {named(answer)}"
        if any(one.get("wrong") for one in context.fact("memory", "devices") or []):
            evidence += "; the memory test finds wrong bytes too (GS715), which is the likelier cause"
        return [finding(context, wrong, evidence)]
    value = capability(context, number) if rc == 209 else rc
    return failed_call(context, answer, what, "GS705", value=value)


def named(answer: Facts) -> str:
    """Name the multiprocessors that computed wrongly, of those that were reached."""
    bad, more = answer["bad"], len(answer["bad"]) - MOST_NAMED
    told = "multiprocessor " + ", ".join(map(str, bad[:MOST_NAMED]))
    return f"{told} and {more} more of {answer['reached']}" if more > 0 else told


def capability(context: Context, number: int) -> str:
    """Return a device's compute capability such as ``9.0``."""
    devices = context.fact(driver_init.NAME, "devices") or []
    found: Facts | None = next((d for d in devices if d.get("number") == number), None)
    return f"{found.get('major')}.{found.get('minor')}" if found else "?"


def _has_sass(context: Context, number: int) -> bool | None:
    """Say whether the image promises compiled code for the device (same major, minor not above); None without a row."""
    promised = context.row.capabilities("sass")
    if not promised:
        return None
    major, _, minor = capability(context, number).partition(".")
    return any(p.split(".")[0] == major and p.split(".")[-1] <= minor for p in promised)


LAYERS = (LayerSpec(NAME, 90, evaluate, probe, "gpu", carries=ALL),)
