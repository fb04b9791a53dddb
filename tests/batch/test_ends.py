"""What ends the process, or stands still: exit code 0 comes only when all is done, and a signal is answered in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.batch.conftest import PACKAGE, Output, texts, write_jsonl
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
    ("does", "code", "says"),
    sampled(
        [
            ("sys.exit(0)", 65, "SystemExit: 0"),
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


SECONDS = 20
# The reader stands still after two parts, as it does with a disk over the network that is gone.
STALLED = f"""
import sys, time
from gpu_repo_runtime.batch import __main__, run

real = run.read_units

def stalled(*arguments):
    for number, part in enumerate(real(*arguments)):
        if number == 2:
            print("STALLED", file=sys.stderr)
            time.sleep(600)
        yield part

run.read_units = stalled
sys.exit(__main__.start("{PACKAGE}", sys.argv[1:]))
"""


def stopped(process: subprocess.Popen[str], sent: int = signal.SIGTERM) -> str:
    """Send a signal; return what the process said until it ended with the code for it."""
    began = time.monotonic()
    process.send_signal(sent)
    code, said = end(process)
    assert code == 128 + sent, said
    assert time.monotonic() - began < SECONDS
    assert "start the same command again to go on" in said
    return said


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    assert process.stderr
    for line in process.stderr:
        if word in line:
            return
    raise AssertionError(f"it never said {word}: {process.wait()}")


@pytest.mark.parametrize("number", sampled([signal.SIGTERM, signal.SIGINT], [signal.SIGTERM]))
@pytest.mark.parametrize(
    "inside",
    sampled(["time.sleep(1)", "try:\n                time.sleep(1)\n            except BaseException: pass"], every(2)),
)
def test_a_signal_while_the_model_loads(build, arguments, number, inside):
    load = f"sys.stderr.write('LOADS\\n')\n        while True:\n            {inside}"
    process = build(load=load).start(*arguments)
    wait_for(process, "LOADS")
    assert "stopped while" in stopped(process, number)


def test_a_signal_while_a_read_stands_still(job, tmp_path, out):
    source = write_jsonl(tmp_path / "a.jsonl", texts(50))
    options = ["--input", source, "--output", out.path, "--part-rows", 10]
    command = [sys.executable, "-c", STALLED, "run", *map(str, options), "--device", "cpu"]
    environment = os.environ | {"PYTHONPATH": job.path}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    wait_for(process, "STALLED")
    while len(list(out.path.glob("_parts/*.parquet"))) < 2:
        time.sleep(0.02)
    stopped(process)
    [run] = (out.path / "_runs").iterdir()
    assert '"exit_code": 143' in run.read_text()
    assert job(*options) == 0
    assert len(out.rows()) == 50


@pytest.mark.parametrize("number", sampled([signal.SIGINT, signal.SIGTERM], [signal.SIGINT]))
def test_a_signal_while_it_profiles(job, tmp_path, number):
    options = ("profile", "--input", write_jsonl(tmp_path / "a.jsonl", texts(500)), "--output", tmp_path / "profile")
    command = [sys.executable, "-m", f"{PACKAGE}.job", *map(str, options)]
    environment = os.environ | {"PYTHONPATH": job.path, "DEVICE": "cpu", "SLOW": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for(process, "cpu")
    assert "stopped while the model was profiled" in stopped(process, number)


def test_a_signal_while_predict_stands_still(build, arguments, tmp_path):
    predict = "sys.stderr.write('PREDICTS\\n'); time.sleep(600)"
    process = build(predict=predict).start(*arguments, "--grace", 1)
    wait_for(process, "PREDICTS")
    assert "did not end in the 1 s of --grace" in stopped(process)
    assert not Output(tmp_path / "out").complete
