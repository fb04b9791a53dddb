"""Layer kernels: a PTX kernel that every GPU can run, and one stamped with the image's own PTX version."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from array import array
from collections.abc import Callable, Iterator

from .. import witness
from ..calls import Api, CallFailed
from ..errors import code_text
from ..isolate import Facts, Session
from ..spec import ALL, LayerSpec
from ..verdicts import SKIP, Context, Finding, Layer, fault_finding, finding
from . import driver_init, user_driver

NAME, TITLE, LEVEL = "kernels", "PTX kernels", "gpu"
# Blocks go to the multiprocessors in turn: four for each reach them all, also where some are busy.
THREADS, BLOCKS_EACH, PROCESSORS = 64, 4, 160
PTX_BODY = """
.address_size 64
.visible .entry gpu_smoke(.param .u64 data, .param .u32 count)
{
    .reg .pred %out;
    .reg .b32 %r<6>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [data];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %out, %r2, %r1;
    @%out bra DONE;
    cvta.to.global.u64 %d1, %d1;
    mul.wide.u32 %d2, %r2, 4;
    add.s64 %d3, %d1, %d2;
    ld.global.u32 %r5, [%d3];
    mad.lo.s32 %r5, %r5, 3, %r2;
    st.global.u32 [%d3], %r5;
DONE:
    ret;
}
"""


def ptx(version: str, target: str) -> str:
    """Return the kernel ``data[i] = 3 * data[i] + i`` (unsigned, 32 bits) as PTX text."""
    return f".version {version}\n.target {target}" + PTX_BODY


def universal_ptx() -> str:
    """Return the text that every GPU since compute capability 5.0 and every driver can compile."""
    return ptx("4.2", "sm_50")


def stamped_ptx(version: str) -> str:
    """Return the text stamped with a toolkit's PTX version; CUDA 13 no longer compiles for targets below sm_75."""
    return ptx(version, "sm_75" if int(version.split(".")[0]) >= 9 else "sm_50")


def ptx_version(cuda: int) -> str:
    """Return the PTX version that a CUDA version (1000 * major + 10 * minor) emits, "" when it is not known.

    From the release history in the PTX ISA: 12.6 repeats 8.5 of 12.5, so later minors of 12 are one behind.
    """
    major, minor = cuda // 1000, cuda % 1000 // 10
    if major == 12 and minor >= 6:
        minor -= 1
    base = {11: 7, 12: 8, 13: 9}.get(major)
    return f"{base}.{minor}" if base else ""


def probe(context: Context, session: Session) -> Facts:
    """Run both kernels on every chosen device; facts: ``devices``, each with ``universal`` and ``stamped`` answers."""
    count = usable(context)
    if not count:
        return {"not_run": "no usable device"}
    api = Api(ctypes.CDLL(user_driver.SONAME), session, "libcuda")
    cuda = context.fact("runtime", "runtime_version") or 0
    if not cuda and context.row.cuda:
        cuda = context.row.cuda[0] * 1000 + context.row.cuda[1] * 10
    api.check("cuInit", ctypes.c_uint(0))
    return {"devices": [_on_device(context, api, number, cuda) for number in range(count)]}


def elements(context: Context, number: int) -> int:
    """Return how many values to compute on a device, so that each of its multiprocessors takes part."""
    devices = context.fact(driver_init.NAME, "devices") or []
    told = next((d.get("processors") or 0 for d in devices if d.get("number") == number), 0)
    return THREADS * BLOCKS_EACH * (told if 0 < told < 4096 else PROCESSORS)


@functools.lru_cache(maxsize=4)
def _numbers(count: int) -> tuple[bytes, bytes]:
    """Return what goes to the device and what must come back, as unsigned numbers of 32 bits."""
    given = [(n * 2654435761) & 0xFFFFFFFF for n in range(count)]
    return array("I", given).tobytes(), array("I", [(3 * v + n) & 0xFFFFFFFF for n, v in enumerate(given)]).tobytes()


def usable(context: Context) -> int:
    """Return how many devices to test: the chosen number, at most those that the driver lists; 0 when none works."""
    if context.fact("driver-init", "rc") != 0 or context.fact("driver-init", "fault"):
        return 0
    if context.hung(NAME, "memory", "runtime"):
        return 0
    listed = len(context.fact("driver-init", "devices") or [])
    return min(context.options.gpus or listed, listed)


@contextlib.contextmanager
def primary_context(api: Api, number: int) -> Iterator[None]:
    """Make the primary context of a device current, and release it."""
    device, handle = ctypes.c_int(0), ctypes.c_void_p()
    api.check("cuDeviceGet", ctypes.byref(device), ctypes.c_int(number))
    api.check("cuDevicePrimaryCtxRetain", ctypes.byref(handle), device)
    try:
        api.check("cuCtxSetCurrent", handle)
        yield
    finally:
        # A released context must not stay current: the runtime's next call would find it destroyed (709).
        api.code("cuCtxSetCurrent", None)
        api.code("cuDevicePrimaryCtxRelease_v2", device)


def _on_device(context: Context, api: Api, number: int, cuda: int) -> Facts:
    answer: Facts = {"number": number}
    try:
        with primary_context(api, number):
            count = answer["count"] = elements(context, number)
            answer["universal"] = _attempt(api, universal_ptx(), count)
            if ptx_version(cuda):
                answer["stamped"] = _stamped(context, api, cuda, count)
    except CallFailed as error:
        answer["universal"] = {"call": error.call, "rc": error.rc}
    return answer


def _stamped(context: Context, api: Api, cuda: int, count: int) -> Facts:
    """Try the toolkit's PTX version; a driver at least as new as the toolkit settles what that version really is."""
    asked = ptx_version(cuda)
    answer = {"version": asked, **_attempt(api, stamped_ptx(asked), count)}
    driver_is_newer = (context.fact("driver-init", "driver_version") or 0) >= cuda
    base, minor = (int(part) for part in asked.split("."))
    while answer["rc"] == 222 and driver_is_newer and minor > 0:
        minor -= 1
        answer = {"version": f"{base}.{minor}", **_attempt(api, stamped_ptx(f"{base}.{minor}"), count)}
    return answer


def _attempt(api: Api, text: str, count: int) -> Facts:
    """Compile, run and check one kernel; return ``rc``, ``call`` and ``wrong`` (number of wrong values)."""
    module = ctypes.c_void_p()
    rc = api.code("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(text.encode()))
    if rc:
        return {"call": "cuModuleLoadData", "rc": rc}
    try:
        return {"call": "", "rc": 0, "wrong": _wrong_values(api, module, count)}
    except CallFailed as error:
        return {"call": error.call, "rc": error.rc}
    finally:
        api.code("cuModuleUnload", module)


def _wrong_values(api: Api, module: ctypes.c_void_p, number: int) -> int:
    given, wanted = _numbers(number)
    data, size = (ctypes.c_uint32 * number).from_buffer_copy(given), ctypes.c_size_t(4 * number)
    function, pointer, count = ctypes.c_void_p(), ctypes.c_uint64(0), ctypes.c_uint32(number)
    api.check("cuModuleGetFunction", ctypes.byref(function), module, b"gpu_smoke")
    api.check("cuMemAlloc_v2", ctypes.byref(pointer), size)
    try:
        api.check("cuMemcpyHtoD_v2", pointer, data, size)
        arguments = (ctypes.c_void_p * 2)(ctypes.addressof(pointer), ctypes.addressof(count))
        grid = [ctypes.c_uint(n) for n in (number // THREADS, 1, 1, THREADS, 1, 1, 0)]
        api.check("cuLaunchKernel", function, *grid, None, arguments, None)
        api.check("cuCtxSynchronize")
        api.check("cuMemcpyDtoH_v2", data, pointer, size)
    finally:
        api.code("cuMemFree_v2", pointer)
    if bytes(data) == wanted:
        return 0
    return sum(have != want for have, want in zip(data, array("I", wanted)))


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


def judge(context: Context) -> Layer:
    """Decide on both kernels of every device."""
    layer = Layer(NAME, TITLE, LEVEL)
    devices = judge_devices(context, layer, _judge_device)
    if not devices:
        return layer.settle()
    stamped = (devices[0].get("stamped") or {}).get("version")
    layer.summary = f"{len(devices)} devices: PTX 4.2" + (f" and {stamped}" if stamped else "")
    return layer.settle()


def _judge_device(context: Context, device: Facts) -> list[Finding]:
    where = witness.cuda_name(context, device["number"])
    found = _explain(context, device, "universal", f"{where}, PTX 4.2")
    stamped = device.get("stamped")
    if stamped and not found:
        if stamped["rc"] == 222:
            evidence = f"{where}: PTX {stamped['version']} gives {code_text(222)}, PTX 4.2 runs"
            severity = "warning" if _has_sass(context, device["number"]) is not False else "error"
            return [finding(context, "GS702", evidence, severity, value=stamped["version"])]
        found += _explain(context, device, "stamped", f"{where}, PTX {stamped['version']}")
    return found


def _explain(context: Context, device: Facts, kernel: str, what: str) -> list[Finding]:
    answer, number = device[kernel], device["number"]
    rc = answer["rc"]
    if rc == 0:
        if not answer["wrong"]:
            return []
        evidence = f"{what}: {answer['wrong']} of {device['count']} values are wrong"
        if any(one.get("wrong") for one in context.fact("memory", "devices") or []):
            evidence += "; the memory test finds wrong bytes too (GS715), which is the likelier cause"
        return [finding(context, "GS704", evidence)]
    evidence = f"{what}: {answer['call']} gave {code_text(rc)}"
    value = capability(context, number) if rc == 209 else rc
    return witness.on_gpu(context, rc, evidence, "GS705", value=value)


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


LAYERS = (LayerSpec(NAME, 90, judge, probe, "libraries", carries=ALL),)
