"""Containers of the stand-in for a Docker Engine: processes of this machine in the files of an image."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import home
from home import GPU, fail
from images import config, image
from ports import free_port

HOME = Path(home.HOME)

RUNTIME = Path(__file__).resolve().parents[4] / "runtime" / "src"  # as if base-install had installed it
FLAGS = ("--rm", "--detach", "--ipc=host", "-it")


def main(arguments: list[str]) -> int:
    """Do one command of `docker` that is about containers."""
    match arguments:
        case ["run", *options]:
            return run(options)
        case ["exec", *options]:
            return execute(options)
        case ["stop", "--time", seconds, container]:
            stop(container, float(seconds))
        case ["inspect", "--format", "{{.State.ExitCode}}", container]:
            print(exit_code(container))
        case ["logs", container]:
            print((HOME / container / "log").read_text())
        case ["rm", "--force", container]:
            stop(container, 0)
            shutil.rmtree(HOME / container)
        case _:
            return fail(f"the stand-in does not know: docker {' '.join(arguments)}")
    return 0


def run(options: list[str]) -> int:
    """Run a command in a container: in the mounted checkout, or in the files of the pulled image."""
    environment, mount, weights, gpu, detach = dict(os.environ), "", "", False, False
    while options[0].startswith("-"):
        option = options.pop(0)
        detach = detach or option == "--detach"
        if option in FLAGS:
            continue
        value = options.pop(0)
        gpu = gpu or option in ("--gpus", "--device")
        if option == "--volume" and value.endswith(":/weights:ro"):
            weights = value.removesuffix(":/weights:ro")
        elif option == "--volume":
            mount = value
        if option == "--env" and "=" in value:
            environment.__setitem__(*value.split("=", 1))
    if weights:
        environment["WEIGHTS"] = weights
    name, *command = options
    if not image(name).exists():
        return fail(f"Unable to find image {name}")
    folder = Path(tempfile.mkdtemp(prefix="container-", dir=HOME))
    source, _, target = mount.partition(":")
    work = Path(source) if target == "/app" else folder / "app"
    if target != "/app":
        shutil.copytree(image(name) / "app", work)
        if mount:
            (work / target.removeprefix("/app/")).symlink_to(source)
    # A container has a /tmp of its own, and the base image's programs have their places.
    command = [word.replace("/tmp/", f"{folder}/").replace("/usr/local/bin/gpu-smoke", "gpu-smoke") for word in command]
    packages = [str(HOME / "inside"), str(Path(sys.executable).parent)]
    environment |= {
        "PYTHONPATH": f"{work / 'src'}{os.pathsep}{RUNTIME}",
        "PATH": ":".join([*packages, environment["PATH"]]),
        "STANDIN_GPU": str(HOME) if gpu and GPU else "",
        "STANDIN_ROW": config(image(name))["config"]["Labels"]["row"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # those of this repository
    }
    if gpu and GPU:  # a stand-in of a GPU computes on the CPU, and no test can compare it with one
        environment |= {"DEVICE": "cpu", "SMOKE_REQUIRE": "none"}
        command = ["cpu" if word == "cuda" else word for word in command]
    if detach:
        print(start(folder, work, environment))
        return 0
    try:
        return subprocess.run(command, cwd=work, env=environment, check=False).returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start(folder: Path, work: Path, environment: dict[str, str]) -> str:
    """Start the service of an image in a port of its own, as in a network of its own; return the container."""
    environment["PORT"] = str(free_port())
    package = next((work / "src").glob("*/model.py")).parent.name
    container = HOME / f"c{uuid.uuid4().hex[:12]}"
    folder.rename(container)
    work = container / "app"
    environment.pop("JENKINS_NODE_COOKIE", None)
    environment["PYTHONPATH"] = f"{work / 'src'}{os.pathsep}{RUNTIME}"
    (container / "env.json").write_text(json.dumps(environment))
    script = f'"{sys.executable}" -m gpu_repo_runtime.serving {package} & echo $! >../pid; wait $!; echo $? >../exit'
    with (container / "log").open("w") as log:
        command = ["sh", "-c", script]
        subprocess.Popen(command, cwd=work, env=environment, stdout=log, stderr=log, start_new_session=True)
    return container.name


def execute(options: list[str]) -> int:
    """Run a command in a running container."""
    passed = {}
    while options[0].startswith("-"):
        option, value, options = options[0], options[1], options[2:]
        assert option == "--env", option
        passed |= {value: os.environ[value]} if value in os.environ else {}
    container, *command = options
    if (HOME / container / "exit").exists():
        return fail(f"container {container} is not running")
    environment = json.loads((HOME / container / "env.json").read_text()) | passed
    return subprocess.run(command, cwd=HOME / container / "app", env=environment, check=False).returncode


def exit_code(container: str) -> str:
    file = HOME / container / "exit"
    return file.read_text().strip() if file.exists() else "0"


def stop(container: str, seconds: float) -> None:
    """Ask the process of a container to end; end it after `seconds`."""
    folder = HOME / container
    while not (folder / "pid").exists():
        time.sleep(0.02)
    end(folder, signal.SIGTERM if seconds else signal.SIGKILL)
    deadline = time.monotonic() + seconds
    while not (folder / "exit").exists():
        if time.monotonic() > deadline:
            end(folder, signal.SIGKILL)
        time.sleep(0.05)


def end(folder: Path, number: signal.Signals) -> None:
    """Send a signal to the process of a container, if it still runs."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), number)
