"""In a probe's child: say in which library a crash happened, before the process dies of it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Any

SIGNALS = ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT")
# Where the program counter and the stack pointer lie in ucontext_t of glibc and musl.
PLACES = {"x86_64": (168, 160), "aarch64": (440, 432)}
SA_SIGINFO, MOST_WORDS, PATIENCE_S = 4, 1024, 3
# Those that others call: the one that called them is named.
CALLED = re.compile(
    r"/(libc|ld|ld-linux[^/]*|libpthread|libm|libdl|libgcc_s|libstdc\+\+|libffi)[-.][^/]*$|python|_ctypes"
)
Region = tuple[int, int, str]


class _Action(ctypes.Structure):
    """struct sigaction of glibc and musl."""

    _fields_ = (("handler", ctypes.c_void_p), ("mask", ctypes.c_ulong * 16), ("flags", ctypes.c_int),
                ("restorer", ctypes.c_void_p))  # fmt: skip


_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_kept: list[Any] = []


def watch(send: Callable[[dict[str, Any]], None]) -> None:
    """Let ``send`` have ``{"crash": {...}}`` when a library crashes this process, which dies of the same signal."""
    libc = ctypes.CDLL(None)

    def told(number: int, info: int, machine: int) -> None:
        # A crash may have left locks taken: then this waits for ever, and the alarm ends the process.
        libc.alarm(PATIENCE_S)
        name = signal.Signals(number).name
        with contextlib.suppress(Exception):
            send({"crash": {"signal": name}})
            send({"crash": {"signal": name, **_where(machine)}})
        libc.signal(number, None)
        os.kill(os.getpid(), number)

    handler = _Handler(told)
    _kept.append(handler)
    action = _Action(handler=ctypes.cast(handler, ctypes.c_void_p).value, flags=SA_SIGINFO)
    for name in SIGNALS:
        libc.sigaction(signal.Signals[name].value, ctypes.byref(action), None)


def _where(machine: int) -> dict[str, Any]:
    """Return the library of the instruction, and of the nearest caller on the stack that is not a common library."""
    places = PLACES.get(os.uname().machine)
    if not places or sys.maxsize < 1 << 32:
        return {}
    counter, stack = (_word(machine + place) for place in places)
    regions = code_regions(_maps())
    at = _name(counter, regions)
    found: dict[str, Any] = {"library": at} if at and not CALLED.search(at) else {}
    if not found:
        caller = _caller(stack, regions)
        found = {key: value for key, value in (("library", caller), ("at", at)) if value}
    return found


def _word(address: int) -> int:
    return ctypes.c_size_t.from_address(address).value


def _maps() -> str:
    with open("/proc/self/maps", encoding="utf-8", errors="backslashreplace") as file:
        return file.read()


def code_regions(maps: str) -> list[Region]:
    """Return start, end and file of each region that holds code (proc(5), maps)."""
    found = []
    for line in maps.splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
            start, _, end = fields[0].partition("-")
            found.append((int(start, 16), int(end, 16), fields[5]))
    return found


def _name(address: int, regions: list[Region]) -> str:
    return next((path for start, end, path in regions if start <= address < end), "")


def _caller(stack: int, regions: list[Region]) -> str:
    """Return the first library of the stack's return addresses; a word that only looks like one may mislead."""
    top = next((int(line.split("-")[1].split()[0], 16) for line in _maps().splitlines() if _holds(line, stack)), 0)
    for address in range(stack, min(top, stack + 8 * MOST_WORDS) - 7, 8):
        path = _name(_word(address), regions)
        if path and not CALLED.search(path):
            return path
    return ""


def _holds(line: str, address: int) -> bool:
    start, _, end = line.split(None, 1)[0].partition("-")
    return int(start, 16) <= address < int(end, 16)
