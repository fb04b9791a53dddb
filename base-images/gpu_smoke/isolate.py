"""Run steps in a child process, so that a crash, a hang or a silent exit of a library becomes data."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import selectors
import signal
import site
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from .host import clean

MAX_ANSWER = 8 << 20
OUTPUT_TAIL = 4000
GRACE_S = 2.0
PR_SET_PDEATHSIG = 1
Facts = dict[str, Any]
Step = Callable[["Session"], Facts]


class Session:
    """What a step has in its child: ``note`` tells the parent the next call, ``kept`` lives until the child ends."""

    def __init__(self, send: Callable[[Facts], None]) -> None:
        self._send = send
        self.kept: dict[str, Any] = {}

    def note(self, call: str) -> None:
        """Name the call that is about to run: it is what a crash or a hang is blamed on."""
        self._send({"note": call})


def run(
    steps: dict[str, Step],
    patience: Callable[[], float],
    facts: dict[str, Facts],
    stay: contextlib.ExitStack | None = None,
) -> None:
    """Run steps in order in one child and put each answer into ``facts`` under the step's name.

    A step that dies or is silent for ``patience()`` seconds has ``{"fault": {...}}`` as its answer; a new child goes on
    with the next step. In the child, later steps see the answers of earlier ones in the same ``facts``.
    With ``stay`` the child that answered last lives, with the files that it has open, until the stack is left.
    The caller must not have threads or CUDA in its own process (the child is forked).
    """
    todo = dict(steps)
    while todo:
        child = _Child(todo, facts, stays=stay is not None)
        try:
            child.listen(patience())
        finally:
            answered = not child.fault
            if answered and stay:
                stay.callback(child.kill)
            else:
                child.kill()
        facts.update(child.answers)
        todo = {name: step for name, step in todo.items() if name not in child.answers}
        if todo:
            late = next(iter(todo))
            facts[late] = {"fault": child.fault}
            del todo[late]


class _Child:
    """A forked process that runs steps and sends lines of JSON, and what its parent heard of it."""

    def __init__(self, steps: dict[str, Step], facts: dict[str, Facts], *, stays: bool) -> None:
        # Libraries may write to any open file: only lines with the token are ours.
        self.token, self.names = os.urandom(8).hex().encode(), [*steps]
        self.answers: dict[str, Facts] = {}
        self.fault: Facts = {"kind": "exit"}
        self._call, self._size, self._buffer, self._output = "", 0, b"", b""
        self._answer, answer = os.pipe()
        self._said, said = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._answer)
            os.close(self._said)
            _become_child(steps, self.token, answer, said, facts, stays=stays)
        os.close(answer)
        os.close(said)

    def listen(self, timeout_s: float) -> None:
        """Take what the child says until it has answered everything, ended, or said nothing new for so long."""
        ended, deadline = None, time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector, contextlib.ExitStack() as pipes:
            for number in (self._answer, self._said):
                pipes.callback(os.close, number)
                os.set_blocking(number, False)
                selector.register(number, selectors.EVENT_READ)
            while time.monotonic() < deadline:
                read, moved = self._pump(selector)
                deadline = time.monotonic() + timeout_s if moved else deadline
                if all(name in self.answers for name in self.names):
                    self.fault = {}
                    return
                if ended and not read:
                    break
                # Not reaped yet: its number still names its process group, which is killed below.
                ended = ended or os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        tail = clean(self._output.decode("utf-8", "backslashreplace"))[-OUTPUT_TAIL:]
        how = _death_fault(ended) if ended else {"kind": "timeout", "seconds": timeout_s}
        self.fault = {"call": clean(self._call), "output": tail, **how}

    def _pump(self, selector: selectors.BaseSelector) -> tuple[bool, bool]:
        """Read once from each ready pipe; return (something was read, a step began or ended)."""
        read = moved = False
        for key, _ in selector.select(0.05 if selector.get_map() else 0):
            data = b""
            with contextlib.suppress(BlockingIOError):
                data = os.read(key.fd, 1 << 16)
            if not data:
                selector.unregister(key.fd)
            elif key.fd == self._answer:
                moved = self._take(data) or moved
            else:
                self._output = (self._output + data)[-4 * OUTPUT_TAIL :]
            read = read or bool(data)
        if not selector.get_map():
            time.sleep(0.005)
        return read, moved

    def _take(self, data: bytes) -> bool:
        """Read whole lines from the pipe; say whether a step began or ended."""
        self._size += len(data)
        if self._size > MAX_ANSWER:
            return False
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        moved = False
        for line in lines:
            _, token, text = line.rpartition(self.token)
            try:
                message = json.loads(text) if token else {}
            except ValueError:
                continue
            self._call = message.get("note", "" if "start" in message else self._call)
            if "done" in message:
                self.answers[message["done"]] = message["facts"]
            moved = moved or "start" in message or "done" in message
        return moved

    def kill(self) -> None:
        """End the child and all that it started, and reap it; one that the kernel does not let go (state D) is left."""
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        end = time.monotonic() + GRACE_S
        with contextlib.suppress(ChildProcessError):
            while not os.waitpid(self.pid, os.WNOHANG)[0] and time.monotonic() < end:
                time.sleep(0.0005)


def _death_fault(ended: os.waitid_result) -> Facts:
    """Describe how a child ended."""
    number = ended.si_status
    if ended.si_code == os.CLD_EXITED:
        return {"kind": "exit", "status": number}
    return {"kind": "signal", "signal": signal.Signals(number).name if number in {*signal.Signals} else str(number)}


def _become_child(
    steps: dict[str, Step], token: bytes, answer: int, output: int, facts: dict[str, Facts], *, stays: bool
) -> None:
    """Run the steps and leave the process; never returns."""
    status = 1
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        faulthandler.enable(file=2)  # a crash leaves the Python frames in the output

        def send(message: Facts) -> None:
            line = token + json.dumps(message).encode() + b"\n"
            while line:
                line = line[os.write(answer, line) :]

        session = Session(send)
        if sys.flags.no_site:
            # Not in the program, which gives the verdict: a .pth file of any package runs code that may end it.
            session.note("the .pth files of site-packages")
            site.main()
        for name, step in steps.items():
            send({"start": name})
            began = time.monotonic()
            facts[name] = _guarded(step, session)
            facts[name]["seconds"] = round(time.monotonic() - began, 3)
            send({"done": name, "facts": facts[name]})
        if stays:
            signal.pause()
        status = 0
    finally:
        # No interpreter shutdown: a broken library must not get to run its exit handlers.
        os._exit(status)


def _guarded(step: Step, session: Session) -> Facts:
    try:
        return step(session)
    except BaseException as error:
        trace = clean(traceback.format_exc(limit=-6))
        return {"fault": {"kind": "exception", "error": clean(f"{type(error).__name__}: {error}"), "trace": trace}}
