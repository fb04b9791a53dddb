"""Kernels on a device: compile a text, take memory, launch, and compare what each multiprocessor gave back."""

from __future__ import annotations

import contextlib
import ctypes
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from ..calls import Api, CallFailed
from ..isolate import Facts
from . import kernel_text

PROCESSORS, ATTEMPTS = 160, 3


class Work(NamedTuple):
    """A kernel over words that it replaces: its text and name, and what blocks are given and give back, in turn."""

    text: str
    name: bytes
    rounds: int
    given: bytes
    wanted: bytes


def over(part: bytes, blocks: int) -> bytes:
    """Return the words of so many blocks, which ``part`` has in turn."""
    size = 4 * kernel_text.THREADS * blocks
    return (part * -(-size // len(part)))[:size]


def attempt(api: Api, work: Work, here: int) -> Facts:
    """Compile, run and check one kernel; return ``rc``, ``call`` and, where it ran, the facts of ``_run``."""
    try:
        with loaded(api, work.text) as module:
            return {"call": "", "rc": 0, **_run(api, function(api, module, work.name), work, here)}
    except CallFailed as error:
        return {"call": error.call, "rc": error.rc}


@contextlib.contextmanager
def loaded(api: Api, text: str) -> Iterator[ctypes.c_void_p]:
    """Let the driver compile a PTX text, and unload it afterwards."""
    module = ctypes.c_void_p()
    api.check("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(text.encode()))
    try:
        yield module
    finally:
        api.code("cuModuleUnload", module)


def function(api: Api, module: ctypes.c_void_p, name: bytes) -> ctypes.c_void_p:
    """Return a kernel of a module."""
    found = ctypes.c_void_p()
    api.check("cuModuleGetFunction", ctypes.byref(found), module, name)
    return found


@contextlib.contextmanager
def room(api: Api, size: int) -> Iterator[ctypes.c_uint64]:
    """Take memory of the device, and give it back."""
    pointer = ctypes.c_uint64(0)
    api.check("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
    try:
        yield pointer
    finally:
        api.code("cuMemFree_v2", pointer)


Argument = ctypes.c_uint64 | ctypes.c_uint32


def launch(api: Api, kernel: ctypes.c_void_p, grid: tuple[int, int], threads: int, *given: Argument) -> None:
    """Start a kernel over ``grid`` blocks; it may still run when this returns."""
    sizes = [ctypes.c_uint(n) for n in (*grid, 1, threads, 1, 1, 0)]
    arguments = (ctypes.c_void_p * len(given))(*(ctypes.addressof(one) for one in given))
    api.check("cuLaunchKernel", kernel, *sizes, None, arguments, None)


def _run(api: Api, kernel: ctypes.c_void_p, work: Work, here: int) -> Facts:
    """Run until every multiprocessor took part; return ``count`` and ``wrong`` values, ``reached`` and ``bad`` ones."""
    reached: set[int] = set()
    answer: Facts = {"count": 0, "wrong": 0, "bad": []}
    for again in range(ATTEMPTS):
        blocks = (here or PROCESSORS) * kernel_text.BLOCKS_EACH * (again + 1)
        values, places = _results(api, kernel, work, blocks)
        wanted = over(work.wanted, blocks)
        reached |= set(places)
        answer["count"] += blocks * kernel_text.THREADS
        if values != wanted:
            wrong = wrong_places(values, wanted, places)
            answer["wrong"] += sum(wrong.values())
            answer["bad"] = sorted({*answer["bad"], *wrong})
        if len(reached) >= here:
            break
    return {**answer, "reached": len(reached)}


def _results(api: Api, kernel: ctypes.c_void_p, work: Work, blocks: int) -> tuple[bytes, array[int]]:
    """Let each thread compute; return its value, and the number of the multiprocessor that it ran on."""
    count = blocks * kernel_text.THREADS
    size, data = ctypes.c_size_t(4 * count), (ctypes.c_uint32 * count).from_buffer_copy(over(work.given, blocks))
    with room(api, 4 * count) as values, room(api, 4 * count) as places:
        api.check("cuMemcpyHtoD_v2", values, data, size)
        launch(api, kernel, (blocks, 1), kernel_text.THREADS, values, places, ctypes.c_uint32(work.rounds))
        api.check("cuCtxSynchronize")
        api.check("cuMemcpyDtoH_v2", data, values, size)
        back = bytes(data)
        api.check("cuMemcpyDtoH_v2", data, places, size)
    return back, array("I", bytes(data))


def wrong_places(values: bytes, wanted: bytes, places: array[int]) -> dict[int, int]:
    """Return how many values are wrong, by the multiprocessor that computed them."""
    found: dict[int, int] = {}
    for at, have, want in zip(places, array("I", values), array("I", wanted), strict=False):
        if have != want:
            found[at] = found.get(at, 0) + 1
    return found
