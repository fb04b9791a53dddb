"""Python, uv and the environment of this machine. What needs Python 3.11 is imported where that was checked."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from .facts import INSIDE, Project, ScriptError, of_the_wheel

LOCK = Path("scripts/tools/uv.lock")


def check_python(code: int = 3) -> None:
    """Raise ScriptError where this Python is not one that .venv may have."""
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        found = f"{sys.executable} is {'.'.join(map(str, sys.version_info[:2]))}"
        told = f"no Python 3.11, 3.12 or 3.13 here ({found})"
        raise ScriptError(code, f"{told}: install one, or set PYTHON=/path/to/python")


def setup(project: Project, words: list[str]) -> int:
    """Make .venv, fetch the weights, and keep what the locks said: other scripts tell when they change."""
    check_python()
    if INSIDE.is_file():
        project.say("this container has the locked packages; after scripts/lock, rebuild it")
    else:
        from .. import environment

        parser = argparse.ArgumentParser(prog="scripts/setup", add_help=False, allow_abbrev=False)
        parser.add_argument("--framework", default=environment.chosen(), metavar="PACKAGE==VERSION|locked")
        framework = parser.parse_args(words).framework
        environment.make(project.gpu, "" if framework == "locked" else framework)
        locks = sorted(Path().glob("requirements*.lock"))
        Path(".venv/locks").write_bytes(b"".join(lock.read_bytes() for lock in locks))
        if "requirements" not in project.adopted:
            subprocess.run([".venv/bin/python", "-m", "gpu_repo_runtime.stale_lock"], env=of_the_wheel(), check=False)
    if project.kind != "library" and Path("weights.lock").is_file():
        subprocess.run(["scripts/weights", "fetch"], check=True)
    return 0


def lock(project: Project, words: list[str]) -> int:
    """Resolve the locks, or look for vulnerabilities in them."""
    parser = argparse.ArgumentParser(prog="scripts/lock", add_help=False, allow_abbrev=False)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--audit", action="store_true")
    parser.add_argument("--upgrade", "-U", action="store_true")
    parser.add_argument("--upgrade-package", "-P", action="append", default=[])
    asked = parser.parse_args(words)
    uv = take_uv()
    from .. import locking

    locks = locking.sources(asked.gpu, project.adopted.get("requirements", ""), project.adopted.get("asks", False))
    if asked.audit:
        return locking.audit(uv, locks)
    options = [word for name in asked.upgrade_package for word in ("--upgrade-package", name)]
    for name in locking.lock(uv, project.row, locks, [*options, *(["--upgrade"] if asked.upgrade else [])]):
        project.say(f"{name} changed")
    project.say("done; next: scripts/setup")
    return 0


def weights(project: Project, words: list[str]) -> int:
    """Lock, fetch or verify the weights."""
    check_python()
    from ..weights import cli

    return cli.main(words)


def profile(project: Project, words: list[str]) -> int:
    """Profile the model of a library, which does not have the runtime installed."""
    if not Path(".venv/bin/python").exists():
        raise ScriptError(3, "there is no .venv: run scripts/setup first")
    from .. import profiling

    return profiling.main(words[words.index("--package") :])


def take_uv() -> str:
    """Return the uv of .venv, else this machine's at its locked version, else one that is installed in build/uv."""
    check_python()
    if Path(".venv/bin/uv").exists():
        return str(Path.cwd() / ".venv/bin/uv")
    wanted = re.search(r"(?m)^uv==([0-9.]+)", LOCK.read_text(encoding="utf-8"))
    here = shutil.which("uv")
    if here and wanted:
        told = subprocess.run([here, "--version"], capture_output=True, text=True, check=False).stdout
        if told.split()[1:2] == [wanted[1]]:
            return here
    folder = Path.cwd() / "build/uv"
    if not (folder / "bin/uv").exists():
        from ..environment import make_venv

        make_venv(folder)
    return str(folder / "bin/uv")


def update(project: Project, words: list[str]) -> int:
    """Become the update, in an environment with the locked Copier."""
    check_python(1)  # 3 is for conflicts
    from ..environment import make_copier

    uv = take_uv()
    python, variables = make_copier(uv), of_the_wheel()
    # The update may have to resolve what a new runtime needs.
    variables["PATH"] = os.pathsep.join([str(Path(uv).parent), variables.get("PATH", "")])
    os.execve(python, [str(python), "-X", "utf8", "-m", "gpu_repo_runtime.update", *words], variables)
