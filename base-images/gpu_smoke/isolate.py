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
    todo = list(steps)
    while todo:
        answers, fault = _child({name: steps[name] for name in todo}, patience(), facts, stay)
        facts.update(answers)
        todo = [name for name in todo if name not in answers]
        if todo and fault:
            facts[todo[0]] = {"fault": fault}
            todo = todo[1:]


def _child(
    steps: dict[str, Step],
    timeout_s: float,
    facts: dict[str, Facts],
    stay: contextlib.ExitStack | None,
) -> tuple[dict[str, Facts], Facts]:
    token = os.urandom(8).hex().encode()
    answer_read, answer_write = os.pipe()
    output_read, output_write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(answer_read)
        os.close(output_read)
        _become_child(steps, token, answer_write, output_write, facts, stays=stay is not None)
    os.close(answer_write)
    os.close(output_write)
    talk = _Conversation(token)
    ended, status = False, None
    try:
        ended = _listen(talk, pid, answer_read, output_read, list(steps), timeout_s)
    finally:
        answered = all(name in talk.answers for name in steps)
        if answered and stay:
            stay.callback(_kill_group, pid)
        else:
            status = _kill_group(pid)
        os.close(answer_read)
        os.close(output_read)
    if answered:
        return talk.answers, {}
    if ended and status is not None:
        return talk.answers, _death_fault(talk, status)
    return talk.answers, talk.fault("timeout", seconds=timeout_s)


def _kill_group(pid: int) -> int | None:
    """End a child and all that it started; it is not reaped yet, so its number still names its process group."""
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    return _reap(pid)


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

        def send(message: Facts) -> None:
            line = token + json.dumps(message).encode() + b"\n"
            while line:
                line = line[os.write(answer, line) :]

        faulthandler.enable(file=2)  # a crash leaves the Python frames in the output
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


class _Conversation:
    """Collects what the child says."""

    def __init__(self, token: bytes) -> None:
        self.token, self.buffer, self.size, self.output = token, b"", 0, b""
        self.answers: dict[str, Facts] = {}
        self.call = ""

    def take(self, data: bytes) -> bool:
        """Read whole lines from the pipe; say whether a step began or ended."""
        self.size += len(data)
        if self.size > MAX_ANSWER:
            return False
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        moved = False
        for line in lines:
            at = line.rfind(self.token)
            if at < 0:
                continue
            try:
                message = json.loads(line[at + len(self.token) :])
            except ValueError:
                continue
            self.call = message.get("note", self.call)
            if "start" in message:
                self.call, moved = "", True
            if "done" in message:
                self.answers[message["done"]] = message["facts"]
                moved = True
        return moved

    def fault(self, kind: str, **details: object) -> Facts:
        """Describe why the child stopped."""
        tail = clean(self.output.decode("utf-8", "backslashreplace"))[-OUTPUT_TAIL:]
        return {"kind": kind, "call": clean(self.call), "output": tail, **details}


def _listen(talk: _Conversation, pid: int, answer: int, output: int, names: list[str], timeout_s: float) -> bool:
    """Take what the child says until it has answered everything, ended or run late; say whether it has ended."""
    deadline = time.monotonic() + timeout_s
    ended = False
    with selectors.DefaultSelector() as selector:
        for fd in (answer, output):
            os.set_blocking(fd, False)
            selector.register(fd, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            read, moved = _pump(selector, talk, answer, 0.05)
            if moved:
                deadline = time.monotonic() + timeout_s
            if all(name in talk.answers for name in names) or (ended and not read):
                break
            ended = ended or os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return ended


def _pump(selector: selectors.BaseSelector, talk: _Conversation, answer: int, wait_s: float) -> tuple[bool, bool]:
    """Read once from each ready pipe; return (something was read, a step began or ended)."""
    read = moved = False
    for key, _ in selector.select(wait_s if selector.get_map() else 0):
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(key.fd, 1 << 16)
        if not data:
            selector.unregister(key.fd)
        elif key.fd == answer:
            moved = talk.take(data) or moved
        else:
            talk.output = (talk.output + data)[-4 * OUTPUT_TAIL :]
        read = read or bool(data)
    if not selector.get_map():
        time.sleep(min(wait_s, 0.005))
    return read, moved


def _reap(pid: int) -> int | None:
    """Reap a child and return its status; None when the kernel does not let it go (state D)."""
    end = time.monotonic() + GRACE_S
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.0005)
    return None


def _death_fault(talk: _Conversation, status: int) -> Facts:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in {int(s) for s in signal.Signals} else str(number)
        return talk.fault("signal", signal=name)
    return talk.fault("exit", status=os.WEXITSTATUS(status))
