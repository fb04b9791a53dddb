"""The service in its container, on each base image that is here: locked down, ready, predicting, drained."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
import pytest
from image_tools.catalog import live_rows

from tests.answers import CATALOG, FRAMEWORKS, AnswerSet
from tests.images.conftest import client as client

NEWEST = sorted(live_rows(CATALOG), key=lambda row: row["driver_min"])
NEWEST_OF = {row["framework"]: row["name"] for row in NEWEST}
ROWS = {one["name"]: NEWEST_OF[one["image_framework"]] for one in CATALOG["frameworks"]}
BUILT = [
    pytest.param(framework, marks=pytest.mark.row(ROWS[framework]))
    for framework in FRAMEWORKS
    if os.environ.get("IMAGE", "") in ("", ROWS[framework])
]

pytestmark = pytest.mark.images
LOCKED = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges"], "tmpfs": {"/tmp": ""}}


@pytest.fixture(scope="module", params=BUILT)
def image(request: pytest.FixtureRequest, render: Callable[[AnswerSet], Path], tmp_path_factory: Any) -> Iterator[str]:
    """The image of a fresh service, built by its own script on the base image (made by `make images`)."""
    folder = tmp_path_factory.mktemp("container") / "child"
    shutil.copytree(render(AnswerSet("service", request.param)), folder)
    name = f"service-container-test:{request.param}"
    environment = {**os.environ, "IMAGE": name}
    command = ["scripts/build"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{request.param}: {done.stderr[-2000:]}"
    yield name
    subprocess.run(["docker", "image", "rm", "--force", name], check=False, capture_output=True)


def ask(url: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    """Return status and JSON; 0 when nobody answers."""
    data = json.dumps(body).encode() if body else None
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, {"content-type": "application/json"})) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
    except OSError:
        return 0, None


@pytest.fixture
def running(client: docker.DockerClient, image: str) -> Iterator[tuple[Any, str]]:
    """A locked-down container that is ready, and its URL."""
    container = client.containers.run(image, detach=True, environment={"HOME": "/tmp"}, ports={"8000": None}, **LOCKED)
    try:
        end = time.monotonic() + 120
        url = ""
        while time.monotonic() < end:
            container.reload()
            assert container.status != "exited", container.logs().decode()[-2000:]
            [binding, *_] = container.ports.get("8000/tcp") or [None]
            url = f"http://localhost:{binding['HostPort']}" if binding else ""
            if url and ask(f"{url}/readyz")[0] == 200:
                break
            time.sleep(0.2)
        else:
            pytest.fail(f"{image} was not ready after 120 s: {container.logs().decode()[-2000:]}")
        yield container, url
    finally:
        container.remove(force=True)


def test_it_predicts_as_non_root_with_a_read_only_root_and_drains(running: tuple[Any, str]) -> None:
    container, url = running
    assert container.exec_run("id -u").output.strip() == b"1000"
    assert container.exec_run("touch /app/here").exit_code != 0
    status, answer = ask(f"{url}/predict", {"texts": ["rain and wind are in the forecast"] * 8})
    assert (status, len(answer["predictions"])) == (200, 8)
    assert ask(f"{url}/livez")[1]["device"] == "cpu"
    with ThreadPoolExecutor(16) as pool:
        texts = [{"texts": [f"text {number}"] * 8} for number in range(200)]
        running_requests = [pool.submit(ask, f"{url}/predict", body) for body in texts]
        time.sleep(0.2)
        container.kill("SIGTERM")
        code = container.wait(timeout=40)["StatusCode"]
        statuses = {future.result()[0] for future in running_requests}
    assert code == 0, container.logs().decode()[-2000:]
    assert statuses <= {200, 0}, "answered, or refused before it was accepted"
    assert 200 in statuses


def test_threads_follow_the_limit_of_the_container(client: docker.DockerClient, image: str) -> None:
    """Docker's own limit, in whichever version of control groups this engine has."""
    code = "from gpu_repo_runtime.cores import usable_cores; print(usable_cores())"
    said = client.containers.run(image, ["python", "-c", code], nano_cpus=10**9, remove=True, **LOCKED)
    assert said.strip() == b"1"
