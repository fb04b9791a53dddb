"""Layer memory: total and free memory, a block written and read back, and all of it returned."""

from __future__ import annotations

import ctypes
import time

from ..calls import Api, CallFailed
from ..errors import code_text
from ..isolate import Facts, Session
from ..spec import ALL, LayerSpec
from ..verdicts import Context, Finding, Layer, finding
from . import user_driver
from .kernels import judge_devices, primary_context, usable

NAME, TITLE, LEVEL = "memory", "GPU memory", "gpu"
MIB = 1 << 20
BLOCK, PATTERN = 64 * MIB, 1 * MIB
NEARLY_FULL = 0.05
# Drivers hand memory out in pages of 2 MiB.
SLACK = 2 * MIB


def probe(context: Context, session: Session) -> Facts:
    """Facts: ``devices`` with ``total``, ``free_before``, ``free_after``, ``wrong`` (bytes), ``rc``, ``call``."""
    count = usable(context)
    if not count:
        return {"not_run": "no usable device"}
    api = Api(ctypes.CDLL(user_driver.SONAME), session, "libcuda")
    api.check("cuInit", ctypes.c_uint(0))
    return {"devices": [_on_device(api, number) for number in range(count)]}


def _on_device(api: Api, number: int) -> Facts:
    answer: Facts = {"number": number, "rc": 0, "call": ""}
    try:
        with primary_context(api, number):
            # The first copy may make the driver take memory of its own.
            _write_and_read(api, 2 * MIB)
            answer["free_before"], answer["total"] = _free(api)
            answer["wrong"] = _write_and_read(api, min(BLOCK, answer["free_before"] // 4))
            for _ in range(5):
                answer["free_after"] = _free(api)[0]
                if answer["free_after"] + SLACK >= answer["free_before"]:
                    break
                time.sleep(0.05)
    except CallFailed as error:
        answer.update(rc=error.rc, call=error.call)
    return answer


def _free(api: Api) -> tuple[int, int]:
    free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
    api.check("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def _write_and_read(api: Api, size: int) -> int:
    """Write a pattern to both ends of a block of ``size`` bytes; return how many bytes come back wrong."""
    length = min(PATTERN, size // 2)
    pattern = (bytes(range(256)) * (length // 256 + 1))[:length]
    pointer, back = ctypes.c_uint64(0), ctypes.create_string_buffer(max(1, length))
    api.check("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(1, size)))
    try:
        wrong = 0
        for offset in (0, size - length):
            at = ctypes.c_uint64(pointer.value + offset)
            api.check("cuMemcpyHtoD_v2", at, ctypes.c_char_p(pattern), ctypes.c_size_t(length))
            api.check("cuMemcpyDtoH_v2", back, at, ctypes.c_size_t(length))
            if back.raw[:length] != pattern:
                wrong += sum(a != b for a, b in zip(back.raw, pattern))
        return wrong
    finally:
        api.code("cuMemFree_v2", pointer)


def judge(context: Context) -> Layer:
    """Decide on each device's memory."""
    layer = Layer(NAME, TITLE, LEVEL)
    devices = judge_devices(context, layer, _judge_device)
    first = devices[0] if devices else {}
    if "total" in first:
        layer.summary = (
            f"{first['free_before'] / 2**30:.1f} of {first['total'] / 2**30:.1f} GiB free, returned after the test"
        )
    return layer.settle()


def _judge_device(context: Context, device: Facts) -> list[Finding]:
    where = f"GPU {device['number']}"
    if device["rc"]:
        code = "GS313" if device["rc"] == 46 else "GS708"
        return [finding(context, code, f"{where}: {device['call']} gave {code_text(device['rc'])}")]
    if device["wrong"]:
        return [finding(context, "GS708", f"{where}: {device['wrong']} bytes came back wrong")]
    found = []
    lost = device["free_before"] - device["free_after"]
    if lost > SLACK:
        found.append(finding(context, "GS707", f"{where}: {lost / MIB:.0f} MiB less free memory after the test"))
    if device["free_before"] < NEARLY_FULL * device["total"]:
        found.append(finding(context, "GS706", f"{where}: {device['free_before'] / MIB:.0f} MiB free"))
    return found


LAYERS = (LayerSpec(NAME, 100, judge, probe, "libraries", carries=ALL),)
