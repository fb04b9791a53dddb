"""Layer memory: total and free memory, a block written and read back, and all of it returned."""

from __future__ import annotations

import ctypes
import random
import time

from .. import explanations, gpus
from ..calls import Api, CallFailed
from ..isolate import Facts, Session
from ..spec import ALL, LayerSpec
from ..verdicts import Context, Finding, Layer, finding
from .kernels import NOT_RUN, failed_call, judge_devices, primary_context, started, usable
from .running import room

NAME, TITLE, LEVEL = "memory", "GPU memory", "gpu"
MIB = 1 << 20
BLOCK, CHUNK, STEP = 64 * MIB, 4 * MIB, 4096
NEARLY_FULL = 0.05
# Drivers hand memory out in pages of 2 MiB.
SLACK = 2 * MIB
CYCLES = 3
SWAPPED = bytes(255 - byte for byte in range(256))
libc = ctypes.CDLL(None)
libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def probe(context: Context, session: Session) -> Facts:
    """Facts: ``devices`` with ``total``, ``free_before``, ``lost`` (bytes by cycle), ``wrong`` (bytes) and ``rc``."""
    count = usable(context)
    if not count:
        return dict(NOT_RUN)
    api, patterns = started(session), _patterns()
    return {"devices": [_on_device(api, number, patterns) for number in range(count)]}


def _patterns() -> tuple[bytes, bytes]:
    """Return random bytes and their complement: every bit of the memory is once 0 and once 1."""
    first = random.Random(20).randbytes(CHUNK + STEP * (BLOCK // CHUNK))
    return first, first.translate(SWAPPED)


def _on_device(api: Api, number: int, patterns: tuple[bytes, bytes]) -> Facts:
    answer: Facts = {"number": number, "rc": 0, "call": ""}
    try:
        with primary_context(api, number):
            # The first copy may make the driver take memory of its own.
            _write_and_read(api, 2 * MIB, patterns[0])
            answer["free_before"], answer["total"] = free_memory(api)
            size = answer["size"] = min(BLOCK, max(4096, answer["free_before"] // 4))
            answer["wrong"] = sum(_write_and_read(api, size, pattern) for pattern in patterns)
            answer["lost"] = [_lost(api, answer["free_before"])]
            while answer["lost"][-1] > SLACK and len(answer["lost"]) < CYCLES:
                _write_and_read(api, size, patterns[0])
                answer["lost"].append(_lost(api, answer["free_before"]))
    except CallFailed as error:
        answer.update(rc=error.rc, call=error.call)
    return answer


def _lost(api: Api, before: int) -> int:
    """Return how much less memory is free than before; drivers may give it back with a delay."""
    for _ in range(5):
        lost = before - free_memory(api)[0]
        if lost <= SLACK:
            return lost
        time.sleep(0.05)
    return lost


def free_memory(api: Api) -> tuple[int, int]:
    """Return free and total bytes of the current device."""
    free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
    api.check("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def _write_and_read(api: Api, size: int, pattern: bytes) -> int:
    """Fill a block of ``size`` bytes, then read all of it; return how many bytes come back wrong.

    Every part has its own place in the pattern, so that a part that answers for another is found too.
    """
    given, back = ctypes.create_string_buffer(pattern, len(pattern)), ctypes.create_string_buffer(min(CHUNK, size))
    parts = [(offset, min(CHUNK, size - offset)) for offset in range(0, size, CHUNK)]
    with room(api, size) as pointer:
        for n, (offset, length) in enumerate(parts):
            source = ctypes.c_void_p(ctypes.addressof(given) + n * STEP)
            api.check("cuMemcpyHtoD_v2", ctypes.c_uint64(pointer.value + offset), source, ctypes.c_size_t(length))
        wrong = 0
        for n, (offset, length) in enumerate(parts):
            api.check("cuMemcpyDtoH_v2", back, ctypes.c_uint64(pointer.value + offset), ctypes.c_size_t(length))
            if libc.memcmp(back, ctypes.addressof(given) + n * STEP, length):
                wrong += _different(back.raw[:length], pattern[n * STEP : n * STEP + length])
        return wrong


def _different(left: bytes, right: bytes) -> int:
    both = int.from_bytes(left, "big") ^ int.from_bytes(right, "big")
    return len(left) - both.to_bytes(len(left), "big").count(0)


def evaluate(context: Context) -> Layer:
    """Decide on each device's memory."""
    layer = Layer(NAME, TITLE, LEVEL)
    devices = judge_devices(context, layer, _judge_device)
    first = devices[0] if devices else {}
    if "total" in first:
        layer.summary = (
            f"{first['free_before'] / 2**30:.1f} of {first['total'] / 2**30:.1f} GiB free, returned after the test"
        )
    return layer.settle()


def room_left(context: Context) -> tuple[str, bool]:
    """Return how much memory is free and who holds the rest, as evidence, and whether a GPU is nearly full."""
    devices = [device for device in context.fact(NAME, "devices") or [] if "total" in device]
    told = [f"{gpus.cuda_name(context, device['number'])}: {_free(device)}" for device in devices]
    return "; ".join(filter(None, [*told, explanations.users(context)])), any(map(_nearly_full, devices))


def _free(device: Facts) -> str:
    return f"{device['free_before'] / MIB:.0f} of {device['total'] / MIB:.0f} MiB free"


def _nearly_full(device: Facts) -> bool:
    return bool(device["free_before"] < NEARLY_FULL * device["total"])


def _judge_device(context: Context, device: Facts) -> list[Finding]:
    where = gpus.cuda_name(context, device["number"])
    if device["rc"]:
        return failed_call(context, device, where, "GS708")
    if device["wrong"]:
        return [finding(context, "GS715", f"{where}: {device['wrong']} bytes came back wrong")]
    if explanations.shares_memory(context, device["number"]):
        return []
    found, lost, size = [], device["lost"], device["size"]
    steps = [after - before for before, after in zip([0, *lost], lost, strict=False)]
    if len(steps) == CYCLES and all(0.9 * size <= step <= 2.2 * size for step in steps):
        evidence = f"{where}: {lost[-1] / MIB:.0f} MiB less free memory after {len(lost)} tests of {size / MIB:.0f} MiB"
        found.append(finding(context, "GS707", evidence))
    if _nearly_full(device):
        evidence = f"{where}: {_free(device)}"
        found.append(finding(context, "GS706", "; ".join(filter(None, [evidence, explanations.users(context)]))))
    return found


LAYERS = (LayerSpec(NAME, 100, evaluate, probe, "gpu", carries=ALL),)
