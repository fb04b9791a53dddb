"""What ends the process, or stands still: exit code 0 comes only when all is done, and a signal is answered in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.batch.conftest import Output, texts, write_jsonl
from tests.sampling import every, sampled

MODEL = """
import os, signal, sys, threading, time


class Model:
    examples = ("one",)
    tolerance = 0.0

    def load(self, device):
        {load}

    def predict(self, batch):
        if any("number 7 " in text for text in batch):
            {predict}
        return [{{"size": len(text)}} for text in batch]
"""


@pytest.fixture
def build(made):
    """Return a function that makes a job whose model does something when it loads or predicts."""
    return lambda load="pass", predict="pass": made(MODEL.format(load=load, predict=predict))


@pytest.fixture
def arguments(tmp_path: Path) -> tuple[object, ...]:
    return ("--input", write_jsonl(tmp_path / "a.jsonl", texts(30)), "--part-rows", 5, "--output", tmp_path / "out")


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    said = process.communicate(timeout=60)[1]
    return process.returncode, said


@pytest.mark.parametrize(
    ("where", "does", "code", "says"),
    sampled(
        [
            ("predict", "sys.exit(0)", 65, "SystemExit: 0"),
            ("predict", "raise KeyboardInterrupt", 65, "KeyboardInterrupt"),
            ("predict", "os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
            ("predict", "os._exit(3)", 3, ""),
            ("load", "sys.exit(0)", 78, "ends the process while it loads"),
            ("load", "raise KeyboardInterrupt", 78, "ends the process while it loads"),
        ],
        every(4),
    ),
)
def test_a_model_that_ends_the_process(build, arguments, tmp_path, where, does, code, says):
    ended, said = end(build(**{where: does}).start(*arguments))
    assert ended == code, said
    assert says in said
    assert not Output(tmp_path / "out").complete


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_no_worker_outlives_a_parent_that_is_killed(build, arguments):
    marker = f"from-test-{os.getpid()}"
    process = build(predict="time.sleep(60)").start(*arguments, "--workers", 2, MARKER=marker)
    while len(with_marker(marker)) < 3:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=20)
    began = time.monotonic()
    while found := with_marker(marker):
        assert time.monotonic() - began < 10, f"still there: {found}"
        time.sleep(0.02)


def with_marker(marker: str) -> list[str]:
    """Return the processes that have a marker in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"MARKER={marker}".encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("number", sampled([signal.SIGTERM, signal.SIGINT], [signal.SIGTERM]))
def test_a_signal_to_the_process_reaches_the_job(build, arguments, tmp_path, number):
    process = build(predict="time.sleep(0.5)").start(*arguments, "--batch-size", 1)
    while not list((tmp_path / "out").glob("_parts/*.parquet")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(number)
    ended, said = end(process)
    assert ended == 128 + number, said
    assert "start the same command again" in said
    assert not Output(tmp_path / "out").complete


@pytest.mark.parametrize(
    ("where", "number", "options", "says"),
    sampled(
        [
            ("load", signal.SIGTERM, (), "stopped while"),
            ("load", signal.SIGINT, (), "stopped while"),
            ("predict", signal.SIGTERM, ("--grace", 1), "did not end in the 1 s of --grace"),
        ],
        every(2),
    ),
)
def test_a_signal_while_the_model_stands_still(build, arguments, tmp_path, where, number, options, says):
    process = build(**{where: "sys.stderr.write('STANDS\\n'); time.sleep(600)"}).start(*arguments, *options)
    assert process.stderr
    assert any("STANDS" in line for line in process.stderr)
    began = time.monotonic()
    process.send_signal(number)
    ended, said = end(process)
    assert ended == 128 + number, said
    assert time.monotonic() - began < 20
    assert says in said
    assert "start the same command again to go on" in said
    assert not Output(tmp_path / "out").complete
