"""The service as a process: start, refusals to start, drain, a lost device, slow and vanished clients."""

from __future__ import annotations

import asyncio
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
from gpu_repo_runtime.bench import load

from tests.conftest import ROOT
from tests.runtime.services import Process
from tests.sampling import every, sampled

Start = Callable[..., Any]


def load_while_stopping(service: Any, clients: int, seconds: float) -> tuple[Any, int]:
    """Load the service with kept connections and send SIGTERM on the way; returns the statuses and the exit code."""
    statuses: list[tuple[int, str]] = []

    async def client(target: Any, number: int) -> None:
        connection = await load.Connection().open(target.host, target.port)
        while not connection.closed:
            try:
                status, body = await connection.send(target.request([f"client {number}"]))
            except ConnectionError:
                statuses.append((0, f"client {number}: sent a request and got no answer"))
                return
            statuses.append((status, body.decode()[:200]))

    async def main() -> None:
        target = load.Target(service.url, ["text"])
        tasks = [asyncio.create_task(client(target, number)) for number in range(clients)]
        await asyncio.sleep(seconds)
        service.terminate()
        await asyncio.wait_for(asyncio.gather(*tasks), 20)

    asyncio.run(main())
    return statuses, service.exit_code(10)


def assert_nothing_lost(statuses: list[tuple[int, str]], exit_code: int, clients: int) -> None:
    """Every request that was sent has its answer."""
    others = [entry for entry in statuses if entry[0] != 200]
    assert not others, f"{len(others)} of {len(statuses)} requests were not answered with 200, the first: {others[0]}"
    assert len(statuses) > clients
    assert exit_code == 0


@pytest.mark.slow
def test_sigterm_under_load_loses_nothing(start: Start) -> None:
    service = start(STANDIN_CALL_MS="6", STANDIN_TEXT_MS="0.2")
    assert_nothing_lost(*load_while_stopping(service, 32, 0.5), 32)


@pytest.mark.release
@pytest.mark.parametrize("turn", range(20))
def test_sigterm_under_load_loses_nothing_in_any_of_20_runs(start: Start, turn: int) -> None:
    service = start(STANDIN_CALL_MS="6", STANDIN_TEXT_MS="0.2")
    assert_nothing_lost(*load_while_stopping(service, 64, 0.5 + turn / 50), 64)


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


@pytest.mark.release
def test_a_model_that_takes_30_seconds_to_load(start: Start) -> None:
    slow_load(start, 30)


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", sampled(["ValueError", "StopIteration", "SystemExit", "KeyboardInterrupt"], ["SystemExit"])
)
def test_whatever_a_model_raises_on_load_ends_the_process_with_its_name(start: Start, error: str) -> None:
    service = start(ready=False, STANDIN_LOAD_RAISES=error)
    assert service.exit_code(20) == 1
    [line] = [json.loads(line) for line in service.log.read_text().splitlines() if "could not be loaded" in line]
    assert error in line["traceback"]


@pytest.mark.slow
def test_sigterm_while_loading_ends_soon(start: Start) -> None:
    service = start(ready=False, STANDIN_LOAD_MS="60000")
    service.wait_for("/livez", 200)
    service.terminate()
    assert service.exit_code(3) == 0


def test_cuda_without_a_gpu_refuses_to_start_and_says_why(start: Start) -> None:
    service = start(ready=False, DEVICE="cuda")
    assert service.exit_code(20) == 78
    assert "refusing to start: DEVICE=cuda, but no GPU can be used" in service.log.read_text()


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
@pytest.mark.parametrize(
    ("settings", "words"),
    sampled(
        [
            ({"PORT": "99999"}, "PORT"),
            ({"DEVICE": "tpu"}, "DEVICE"),
            ({"MAX_BATCH_SIZE": "0"}, "MAX_BATCH_SIZE"),
            ({"MAX_TEXTS": "500", "MAX_QUEUE": "10"}, "MAX_QUEUE=10"),
        ],
        every(4),
    ),
)
def test_a_wrong_setting_refuses_to_start_in_one_line(start: Start, settings: dict[str, str], words: str) -> None:
    service = start(ready=False, **settings)
    assert service.exit_code(10) == 78
    [line] = service.log.read_text().splitlines()
    assert line.startswith("refusing to start: ")
    assert words in line


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
def test_a_model_that_fits_not_even_one_text_refuses_to_start(start: Start) -> None:
    service = start(ready=False, STANDIN_FITS="0")
    assert service.exit_code(10) == 78
    assert "1 texts do not fit" in service.log.read_text()


@pytest.mark.slow
def test_a_port_that_is_taken_is_said_with_the_way_out(start: Start) -> None:
    first = start()
    second = start(ready=False, PORT=str(first.port))
    assert second.exit_code(20) == 1
    assert "already in use" in second.log.read_text()
    assert f"PORT={first.port} (see the line before): set another PORT" in second.log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "words"),
    sampled(
        [
            ("import torhc\n", "model.py:1: ModuleNotFoundError: No module named 'torhc'; a package comes with"),
            ("class Model:\n  )(\n", "model.py:2: SyntaxError: unmatched ')'"),
        ],
        every(2),
    ),
    ids=["missing package", "no Python"],
)
def test_a_model_that_cannot_be_imported_is_named_in_one_line(
    child: Path, tmp_path: Path, model: str, words: str
) -> None:
    copy = Path(shutil.copytree(child / "src", tmp_path / "src"))
    next(copy.glob("*/model.py")).write_text(model)
    service = Process(tmp_path, tmp_path / "log")
    assert service.exit_code(20) == 1
    [line] = service.log.read_text().splitlines()
    assert line.startswith("the model could not be loaded: ")
    assert words in line


@pytest.mark.slow
def test_a_class_without_predict_is_refused_with_what_to_write(child: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(child / "src", tmp_path / "src"))
    next(copy.glob("*/model.py")).write_text(
        "class Model:\n    examples = ('a',)\n\n    def load(self, device): pass\n"
    )
    service = Process(tmp_path, tmp_path / "log")
    assert service.exit_code(20) == 78
    [line] = [json.loads(line) for line in service.log.read_text().splitlines()]
    assert line["message"].startswith("refusing to start: ")
    assert "model.py: there is no Model.predict: write def predict(self, batch: list[Input])" in line["message"]
