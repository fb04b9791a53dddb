"""What stands still does not keep the job from ending, and what nobody reads does not end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.batch.conftest import PACKAGE, Output, texts, write_jsonl
from tests.batch.test_ends import arguments, build, end  # noqa: F401 - fixtures
from tests.sampling import every, sampled

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
def test_a_signal_while_the_model_loads(build, arguments, number, inside):  # noqa: F811
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


def test_a_signal_while_predict_stands_still(build, arguments, tmp_path):  # noqa: F811
    predict = "sys.stderr.write('PREDICTS\\n'); time.sleep(600)"
    process = build(predict=predict).start(*arguments, "--grace", 1)
    wait_for(process, "PREDICTS")
    assert "did not end in the 1 s of --grace" in stopped(process)
    assert not Output(tmp_path / "out").complete


@pytest.mark.parametrize("closed", sampled(["2>&-", "2>&- >&-", "2>&- >&- <&-"], every(3)))
def test_closed_standard_streams(job, tmp_path, out, closed):
    source = write_jsonl(tmp_path / "a.jsonl", texts(30))
    run = f'exec "{sys.executable}" -m {PACKAGE}.job run --input "{source}" --output "{out.path}" {closed}'
    environment = os.environ | {"PYTHONPATH": job.path, "DEVICE": "cpu"}
    assert subprocess.run(["bash", "-c", run], env=environment, timeout=60, check=False).returncode == 0
    assert len(out.rows()) == 30
