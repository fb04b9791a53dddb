"""Where a command of the project runs: inside its image, in .venv, in Docker, or in the image that was pushed."""

from __future__ import annotations

import os
import subprocess
import sys
from glob import glob
from pathlib import Path
from typing import NoReturn

from .facts import INSIDE, Project, ScriptError, pushed

VENV = Path(".venv")


def place(project: Project) -> str:
    """Return here (inside the image), venv, docker or pushed; RUN_IN decides where several are possible."""
    asked = os.environ.get("RUN_IN", "")
    known = ["venv", "docker", *([] if project.kind == "library" else ["pushed", "cluster"])]
    if INSIDE.is_file():
        return "here"
    if asked:
        if asked not in known:
            raise ScriptError(2, f"RUN_IN={asked} is unknown: take {', '.join(known[:-1])} or {known[-1]}")
        return asked
    if (VENV / "bin" / "python").exists():
        return "venv"
    if docker_answers():
        return "docker"
    raise ScriptError(3, "there is neither .venv nor Docker here: run scripts/setup first")


def docker_answers() -> bool:
    """Tell whether a Docker Engine answers."""
    try:
        return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def run(project: Project, stage: str, *command: str) -> int:
    """Run a command with the packages of the Dockerfile's stage; return its exit code."""
    words, environment = prepared(project, stage, command)
    return subprocess.run(words, env=environment, check=False).returncode


def become(project: Project, stage: str, *command: str) -> NoReturn:
    """Become a command: signals reach it, and its exit code is the script's."""
    words, environment = prepared(project, stage, command)
    try:
        os.execvpe(words[0], words, environment)
    except OSError as error:
        raise ScriptError(127, f"{words[0]}: {error.strerror}") from error


def prepared(project: Project, stage: str, command: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """Return the command as it runs in its place, and its environment. Raises ScriptError."""
    where = place(project)
    if where == "cluster":
        raise ScriptError(2, "RUN_IN=cluster is for scripts/smoke and scripts/probe")
    environment = dict(os.environ)
    folders = [f"{Path.cwd()}/src", *([os.getcwd()] if project.adopted.get("code") else [])]
    environment["PYTHONPATH"] = os.pathsep.join(folders)
    gpu = "NVIDIA GPU present" if project.gpu else "no NVIDIA GPU"
    if where == "here":
        project.say(f"inside the image, {gpu}")
        return list(command), environment
    if where == "venv":
        project.say(f"in .venv, {gpu}")
        check_venv(project)
        environment["PATH"] = f"{Path.cwd() / VENV / 'bin'}{os.pathsep}{environment['PATH']}"
        return list(command), environment
    return in_docker(project, "pushed" if where == "pushed" else stage, command), environment


def check_venv(project: Project) -> None:
    """Say where .venv is not that of the locks. Raises ScriptError where it is another folder's."""
    made_for = VENV / "folder"
    if made_for.is_file() and made_for.read_text(encoding="utf-8").strip() != str(Path.cwd()):
        folder = made_for.read_text(encoding="utf-8").strip()
        raise ScriptError(3, f".venv was made for {folder}, whose code it would run: run scripts/setup")
    locks = b"".join(Path(name).read_bytes() for name in sorted(glob("requirements*.lock")))
    kept = VENV / "locks"
    if not kept.is_file() or kept.read_bytes() != locks:
        project.say("the requirements locks changed after .venv was made, or scripts/setup did not end: run it")


def in_docker(project: Project, stage: str, command: tuple[str, ...]) -> list[str]:
    """Return the command of Docker that runs `command` on this checkout, as the user who asks for it."""
    if stage == "pushed":  # its own code, and this checkout's build folder for the results
        reference, mount = pull_pushed(), f"{Path.cwd()}/build:/app/build"
    else:
        ensure_image(project, stage)
        reference, mount = stage_image(project, stage), f"{Path.cwd()}:/app"
    weights = mounted_weights() if stage != "pushed" or os.environ.get("WEIGHTS_IN") == "volume" else []
    gpus = gpu_options(project)
    project.say(f"in the Docker image {reference}, {' '.join(gpus) or 'no GPU'}")
    terminal = ["-it"] if sys.stdin.isatty() and sys.stdout.isatty() else []
    port = ["--publish", publish] if (publish := os.environ.get("PUBLISH")) else []
    names = ["DEVICE", "PORT", "SMOKE_REQUIRE", "JOB_FOLDER", "JOB_SETTINGS", "READY_SECONDS", "P95_MS"]
    passed = [word for name in ("HOME=/tmp", *names, *project.settings) for word in ("--env", name)]
    user = ["--user", f"{os.getuid()}:{os.getgid()}"]
    options = [*gpus, *terminal, *weights, *port, *user, *passed, "--volume", mount]
    return ["docker", "run", "--rm", "--ipc=host", *options, reference, *command]


def gpu_options(project: Project) -> list[str]:
    """Return Docker's options for the GPUs, all or the one that GPUS numbers: NVIDIA's runtime, else CDI."""
    if not project.gpu:
        return []
    gpus = os.environ.get("GPUS", "")
    names = ["docker", "info", "--format", "{{json .Runtimes}}"]
    if '"nvidia"' in subprocess.run(names, capture_output=True, text=True, check=False).stdout:
        return ["--gpus", f"device={gpus}" if gpus else "all"]
    if glob("/etc/cdi/*nvidia*") or glob("/var/run/cdi/*nvidia*"):
        return ["--device", f"nvidia.com/gpu={gpus or 'all'}"]
    why = "this machine has an NVIDIA GPU that Docker cannot hand out"
    project.say(f"{why}: install the NVIDIA container toolkit; going on without it")
    return []


def stage_image(project: Project, stage: str) -> str:
    """Return the name of the image of a stage."""
    return project.image if stage == "runtime" else f"{project.image}-{stage}"


def ensure_image(project: Project, stage: str) -> None:
    """Build the image of a stage. Raises ScriptError; the build has said why."""
    project.say(f"building {stage_image(project, stage)}")
    if code := subprocess.run(["scripts/build", stage], stdout=sys.stderr, check=False).returncode:
        raise ScriptError(code, "")


def pull_pushed() -> str:
    """Pull the image that scripts/push left in the registry and return its name. Raises ScriptError."""
    reference = pushed()[0]
    if subprocess.run(["docker", "pull", "--quiet", reference], stdout=subprocess.DEVNULL, check=False).returncode:
        raise ScriptError(3, f"cannot pull {reference}: is this machine logged in to its registry?")
    return reference


def mounted_weights() -> list[str]:
    """Return Docker's options for what weights.lock names. Raises ScriptError."""
    if not Path("weights.lock").is_file():
        return []
    return ["--volume", f"{fetched_weights()}:/weights:ro", "--env", "WEIGHTS=/weights"]


def fetched_weights(*options: str) -> str:
    """Return the folder with the weights of weights.lock. Raises ScriptError; scripts/weights has said why."""
    done = subprocess.run(
        ["scripts/weights", "fetch", "--print", *options], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise ScriptError(done.returncode, "")
    return done.stdout.strip()
