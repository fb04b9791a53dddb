"""A small process above that of the job, which knows whether the job has ended or the process only, by the model."""

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable

from .exits import BAD_CONFIGURATION, BAD_INPUT, DONE, RETRY, SIGNAL

FORWARDED = {signal.SIGTERM, signal.SIGINT}
# How long threads that the model has left behind may keep a job that is done.
LEFTOVER_SECONDS = 10.0
_FROM_THE_TERMINAL = 0x80
_DIE_WITH_PARENT = 1


def watched(work: Callable[[], int]) -> int:
    """Do the work in a process of its own, and return its exit code there and here.

    It is 1 when that process ended with 0 and the work had not returned. Signals are passed on. Where the system has no
    way to wait for signals, the work is done in this process.
    """
    if not hasattr(signal, "sigtimedwait"):
        return work()
    waited_for = FORWARDED | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
    reader, writer = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child:
        os.close(writer)
        return _watch(child, reader, waited_for)
    os.close(reader)
    die_with(parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    own = os.getpid()
    code = work()
    if os.getpid() == own:
        os.write(writer, bytes([code]))
    return code


def die_with(parent: int) -> None:
    """Let this process be killed when its parent ends, on Linux; at once when it has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(RETRY)


def _watch(child: int, reader: int, waited_for: set[signal.Signals]) -> int:
    os.set_blocking(reader, False)
    said, deadline, signals = b"", float("inf"), set[int]()
    while True:
        received = signal.sigtimedwait(waited_for, 0.5)
        ended, status = os.waitpid(child, os.WNOHANG)
        said = said or _read(reader)
        if received:
            signals.add(received.si_signo)
        if ended:
            return said[0] if said else _code(os.waitstatus_to_exitcode(status), signals)
        # Ctrl-C in a terminal reaches all processes there by itself.
        if received and received.si_signo in FORWARDED and received.si_code != _FROM_THE_TERMINAL:
            os.kill(child, received.si_signo)
        if said:
            deadline = min(deadline, time.monotonic() + LEFTOVER_SECONDS)
            if time.monotonic() > deadline:
                _say("the job is over, and a thread or something else of the model is not: ended")
                os.kill(child, signal.SIGKILL)


def _read(reader: int) -> bytes:
    try:
        return os.read(reader, 1)
    except BlockingIOError:
        return b""


def _code(code: int, signals: set[int]) -> int:
    """Return the exit code for a process that ended before its work; by a signal where a signal ended it.

    signals: those that came. The codes that a Job gives up at, or does not count, are not the model's to give.
    """
    if code < 0:
        if -code not in FORWARDED:
            name = signal.Signals(-code).name
            _say(f"the process was ended by {name}, not by the job: look at the model and the memory")
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        os.kill(os.getpid(), -code)
        return 128 - code
    if code in (DONE, BAD_INPUT, BAD_CONFIGURATION) or (code - SIGNAL in FORWARDED and code - SIGNAL not in signals):
        _say(f"the process ended with {code} before the job did: look for exit in the model; another try may help")
        return RETRY
    return code


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"job: {text}\n".encode())
