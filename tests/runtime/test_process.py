"""The service as a process: start, refusals to start, drain, a lost device, slow and vanished clients."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.runtime.services import Process
from tests.sampling import sampled

Start = Callable[..., Any]


@pytest.mark.slow
def test_sigterm_finishes_long_requests_and_refuses_new_connections(start: Start) -> None:
    service = start(STANDIN_CALL_MS="1500")
    with ThreadPoolExecutor() as pool:
        running = [pool.submit(service.predict, f"text {number}") for number in range(3)]
        time.sleep(0.5)
        service.terminate()
        service.wait_for("/readyz", 503)
        assert [future.result()[0] for future in running] == [200] * 3
        service.wait_for("/readyz", 0)
    assert service.exit_code(5) == 0


@pytest.mark.slow
def test_second_sigterm_ends_at_once(start: Start) -> None:
    service = start()
    with ThreadPoolExecutor() as pool:
        running = pool.submit(service.predict, "hang")
        time.sleep(0.3)
        service.terminate()
        time.sleep(0.3)
        service.terminate()
        assert service.exit_code(1) == 143
        assert running.result()[0] == 0


@pytest.mark.slow
def test_the_process_ends_within_shutdown_seconds_even_when_the_model_hangs(start: Start) -> None:
    service = start(SHUTDOWN_SECONDS="2")
    with ThreadPoolExecutor() as pool:
        running = pool.submit(service.predict, "hang")
        time.sleep(0.3)
        started = time.monotonic()
        service.terminate()
        assert service.exit_code(4) == 143
        assert time.monotonic() - started < 2.5
        assert running.result()[0] == 503


@pytest.mark.slow
def test_a_hanging_model_turns_liveness_red(start: Start) -> None:
    service = start(STUCK_SECONDS="0.5")
    with ThreadPoolExecutor() as pool:
        running = pool.submit(service.predict, "hang")
        assert "STUCK_SECONDS" in service.wait_for("/livez", 503, 5)
        service.popen.kill()
        running.result()


def slow_load(start: Start, seconds: float) -> None:
    """While the model loads the process lives, is not ready and says so; then it serves."""
    service = start(ready=False, STANDIN_LOAD_MS=str(seconds * 1000))
    begun = time.monotonic()
    service.wait_for("/livez", 200)
    assert service.get("/readyz")[0] == 503
    status, problem = service.predict("early")
    assert (status, problem["code"]) == (503, "not_ready")
    service.wait_for("/readyz", 200, seconds + 10)
    assert time.monotonic() - begun >= seconds * 0.9
    assert service.predict("now")[0] == 200
    assert seconds <= service.metric("service_model_load_seconds") < seconds + 2


@pytest.mark.slow
def test_a_model_that_takes_two_seconds_to_load(start: Start) -> None:
    slow_load(start, 2)


@pytest.mark.slow
def test_sigterm_while_loading_ends_soon(start: Start) -> None:
    service = start(ready=False, STANDIN_LOAD_MS="60000")
    service.wait_for("/livez", 200)
    service.terminate()
    assert service.exit_code(3) == 0


@pytest.mark.slow
def test_cuda_without_a_gpu_gives_the_cause_that_gpu_smoke_finds(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "gpu-smoke"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT / "base-images"}" exec "{sys.executable}" -m gpu_smoke "$@"\n')
    program.chmod(0o755)
    service = start(ready=False, DEVICE="cuda", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert service.exit_code(60) == 78
    [line] = [json.loads(line) for line in service.log.read_text().splitlines() if "refusing" in line]
    assert line["code"].startswith("GS")
    assert line["fix"]


@pytest.mark.slow
def test_the_log_warns_of_variables_that_look_like_a_setting_and_of_no_others(start: Start) -> None:
    others = {"max_queue": "300", "DEVICE_PLUGIN_PORT": "1", "CUDA_VISIBLE_DEVICES": "0"}
    service = start(MAX_BATCHSIZE="64", LOGLEVEL="debug", **others)
    lines = [json.loads(line) for line in service.log.read_text().splitlines()]
    warned = {line["message"].split()[0]: line["message"] for line in lines if "not a setting" in line["message"]}
    assert warned.keys() == {"MAX_BATCHSIZE", "LOGLEVEL"}
    assert warned["MAX_BATCHSIZE"].endswith("did you mean MAX_BATCH_SIZE?")


@pytest.mark.slow
def test_a_lost_device_turns_liveness_red_and_ends_the_process_with_its_code(start: Start) -> None:
    service = start(STANDIN_CALL_MS="300")
    with ThreadPoolExecutor(12) as pool:
        first = pool.submit(service.predict, "first")
        time.sleep(0.1)
        # Texts of one length stay in one batch.
        texts = ["lose the device" if number == 3 else f"text number {number:03}" for number in range(10)]
        waiting = [pool.submit(service.predict, text) for text in texts]
        assert first.result()[0] == 200
        answers = [future.result() for future in waiting]
        assert {(status, problem["code"]) for status, problem in answers} == {(503, "device_lost")}
        status, body = service.get("/livez")
        assert (status, "cudaErrorIllegalAddress" in body) == (503, True)
    assert service.exit_code(5) == 69


@pytest.mark.slow
@pytest.mark.parametrize(("fits", "limit"), sampled([(32, 32), (31, 16), (5, 4), (1, 1)], [(31, 16)]))
def test_warm_up_finds_the_batch_that_fits(start: Start, fits: int, limit: int) -> None:
    service = start(STANDIN_FITS=str(fits))
    assert service.metric("service_batch_limit") == limit
    status, answer = service.predict(*(f"text {number}" for number in range(64)))
    assert (status, len(answer["predictions"])) == (200, 64)


@pytest.mark.slow
def test_a_port_that_is_taken_is_said_with_the_way_out(start: Start) -> None:
    first = start()
    second = start(ready=False, PORT=str(first.port))
    assert second.exit_code(20) == 1
    assert "already in use" in second.log.read_text()
    assert f"PORT={first.port} (see the line before): set another PORT" in second.log.read_text()


# The variables, the exit code, words of the log.
REFUSED: dict[str, tuple[dict[str, str], int, str]] = {
    "no GPU": ({"DEVICE": "cuda"}, 78, "refusing to start: DEVICE=cuda, but no GPU can be used"),
    "a number out of range": ({"PORT": "99999"}, 78, "refusing to start: PORT: "),
    "no such device": ({"DEVICE": "tpu"}, 78, "refusing to start: DEVICE: "),
    "requests that never fit": ({"MAX_TEXTS": "500", "MAX_QUEUE": "10"}, 78, "refusing to start: MAX_TEXTS=500"),
    "no room for one text": ({"STANDIN_FITS": "0"}, 78, "1 texts do not fit"),
    "load ends the process": ({"STANDIN_LOAD_RAISES": "SystemExit"}, 1, "SystemExit"),
    "load raises StopIteration": ({"STANDIN_LOAD_RAISES": "StopIteration"}, 1, "StopIteration"),
}


@pytest.mark.parametrize("case", ["no GPU", *(pytest.param(case, marks=pytest.mark.slow) for case in [*REFUSED][1:])])
def test_a_service_that_cannot_start_says_why_and_ends_with_the_code(start: Start, case: str) -> None:
    variables, code, words = REFUSED[case]
    service = start(ready=False, **variables)
    assert service.exit_code(20) == code
    assert words in service.log.read_text()


# What model.py contains, the exit code, words of the one line.
MODELS = {
    "a package that is not there": (
        "import torhc\n",
        1,
        "model.py:1: ModuleNotFoundError: No module named 'torhc'; a pack",
    ),
    "no Python": ("class Model:\n  )(\n", 1, "model.py:2: SyntaxError: unmatched ')'"),
    "no predict": (
        "class Model:\n  examples = ('a',)\n  def load(self, device): pass\n",
        78,
        "write def predict(self, ",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", MODELS)
def test_a_model_that_cannot_be_used_is_named_in_one_line(child: Path, tmp_path: Path, case: str) -> None:
    text, code, words = MODELS[case]
    copy = Path(shutil.copytree(child / "src", tmp_path / "src"))
    next(copy.glob("*/model.py")).write_text(text)
    service = Process(tmp_path, tmp_path / "log")
    assert service.exit_code(20) == code
    [line] = service.log.read_text().splitlines()
    assert words in line
