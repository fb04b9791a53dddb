"""A model that ends the process, forks it or keeps it: exit code 0 comes only when everything is done."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.batch.conftest import PACKAGE, Job, Output, texts, write_jsonl
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
def build(child: Path, tmp_path: Path):
    """Return a function that makes a child whose model does something when it loads or predicts."""

    def make(load: str = "pass", predict: str = "pass") -> Job:
        folder = tmp_path / "child"
        shutil.copytree(child, folder)
        (folder / "src" / PACKAGE / "model.py").write_text(MODEL.format(load=load, predict=predict))
        return Job(folder)

    return make


@pytest.fixture
def arguments(tmp_path: Path) -> tuple[object, ...]:
    return ("--input", write_jsonl(tmp_path / "a.jsonl", texts(30)), "--part-rows", 5, "--output", tmp_path / "out")


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    said = process.communicate(timeout=60)[1]
    return process.returncode, said


@pytest.mark.parametrize(
    ("does", "code", "says"),
    sampled(
        [
            ("sys.exit(0)", 65, "SystemExit: 0"),
            ("exit()", 65, "SystemExit"),
            ("raise KeyboardInterrupt", 65, "KeyboardInterrupt"),
            ("raise BaseException('mine')", 65, "BaseException: mine"),
            ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
            ("os._exit(3)", 3, ""),
        ],
        every(4),
    ),
)
def test_a_model_that_ends_the_process(build, arguments, tmp_path, does, code, says):
    ended, said = end(build(predict=does).start(*arguments))
    assert ended == code, said
    assert says in said
    assert not Output(tmp_path / "out").complete


@pytest.mark.parametrize("does", sampled(["sys.exit(0)", "exit()", "raise KeyboardInterrupt"], ["sys.exit(0)"]))
def test_a_model_that_ends_the_process_while_it_loads(build, arguments, does):
    ended, said = end(build(load=does).start(*arguments))
    assert ended == 78, said
    assert "ends the process while it loads" in said


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
@pytest.mark.parametrize("options", [(), ("--workers", 2)])
def test_nothing_outlives_a_parent_that_is_killed(build, arguments, options):
    marker = f"from-test-{os.getpid()}-{len(options)}"
    job = build(predict="time.sleep(60)")
    process = job.start_anew(*arguments, *options, MARKER=marker)
    while len(found := with_marker(marker)) < (1 if not options else 3):
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
