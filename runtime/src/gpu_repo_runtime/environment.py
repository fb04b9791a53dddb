"""Make .venv of a repository: its locked packages, its tools and, on a machine with a GPU, the GPU libraries.

usage: environment [--gpu] [--framework PACKAGE==VERSION]

scripts/setup starts it, straight from the wheel: it needs nothing but Python. Exit codes: 0 done, 1 not done, 2 wrong
use, else what uv ended with.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from .locking import in_wheels
from .package_index import fault
from .project import read as read_project
from .project import write as write_project
from .script_error import ScriptError
from .stale_lock import required

VENV = Path(".venv")
PYTHON, UV = VENV / "bin" / "python", VENV / "bin" / "uv"
TOOLS = "scripts/tools/uv.lock"
RUNTIME = Path("wheels/requirements.in")
NAMED = re.compile(r"(?m)^([A-Za-z0-9][\w.-]*)(?:\[.*?\])?(?:==| @ )")
CHOSEN = VENV / "framework"  # the build that --framework chose, for the next run
FOLDER = VENV / "folder"  # the repository that .venv was made for; programs in .venv/bin contain its path
CUDA = re.compile(r"(torch|tensorflow|jax|jaxlib|jax-cuda.*|triton|nvidia-.*|cuda-.*)==")


class SetupError(ScriptError):
    """The environment is not made."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(code, message)


def say(message: str) -> None:
    """Say what is done, as the scripts do."""
    print(f"setup: {message}", file=sys.stderr, flush=True)


def ran(*command: str | Path) -> int:
    """Run a command and return its exit code; what it says stays visible."""
    of_this_program = ("PYTHONPATH", "PYTHONSAFEPATH")
    variables = {key: value for key, value in os.environ.items() if key not in of_this_program}
    return subprocess.run(command, env=variables, check=False).returncode


def install(*options: str | Path) -> None:
    """Run `uv pip` on .venv. Raises SetupError; uv has said why."""
    if code := ran(UV, "pip", *options, "--quiet", "--python", PYTHON):
        raise SetupError(fault() or "the packages were not installed (see above)", code)


def make_venv(folder: Path) -> None:
    """Make an environment that holds the locked uv and nothing else. Raises SetupError."""
    if folder.is_symlink() and (not folder.is_dir() or any(folder.iterdir())):
        told = f"{folder} is a link to a folder that is not there, or that is not empty and would be emptied"
        raise SetupError(f"{told}: remove the link", 2)
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", TOOLS)
    if ran(sys.executable, "-m", "venv", "--clear", folder) or ran(folder / "bin" / "python", *pip):
        raise SetupError(fault() or f"{folder} was not made (see above)")


def make_copier(uv: str) -> Path:
    """Make build/copier with the locked Copier, unless it is there; return its Python. Raises SetupError."""
    folder, lock = Path("build/copier"), Path("scripts/tools/copier.lock")
    held, python = folder / "lock", folder / "bin" / "python"
    if not held.is_file() or held.read_bytes() != lock.read_bytes():
        print(f"update: installing Copier into {folder}", file=sys.stderr, flush=True)
        sync = ("pip", "sync", "--quiet", "--python", python, "--require-hashes", lock)
        if ran(uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder) or ran(uv, *sync):
            raise SetupError("Copier was not installed; see above")
        held.write_bytes(lock.read_bytes())
    return python


def is_of_another_folder() -> bool:
    """Return whether .venv was copied or moved here: its programs would run the code of the other folder."""
    return FOLDER.is_file() and FOLDER.read_text(encoding="utf-8").strip() != str(Path.cwd())


def lock_runtime() -> None:
    """Resolve the locks again where the template has brought another runtime than they name. Raises SetupError."""
    runtime = RUNTIME.read_text(encoding="utf-8").rpartition(" @ ")[2].strip() if RUNTIME.is_file() else ""
    if not runtime or f"@ {runtime}" in Path("requirements.lock").read_text(encoding="utf-8"):
        return
    say(f"the template brought {runtime}, which requirements.lock does not name: running scripts/lock")
    if ran("scripts/lock"):
        raise SetupError(
            f"scripts/lock must resolve the locks for {runtime}, with a package index within reach; .venv is as it was"
        )
    say("commit the changed locks together with wheels/")


def without_framework(lock: str) -> str:
    """Return a lock without the framework and NVIDIA's libraries."""
    return "".join(entry for entry in re.split(r"(?m)^(?=[A-Za-z0-9])", lock) if not CUDA.match(entry))


def fill(framework: str, gpu: bool) -> None:
    """Let .venv hold what the locks name and nothing else; `framework` takes the place of the locked one."""
    # uv does not read PIP_FIND_LINKS, and an option takes the place of UV_FIND_LINKS.
    folders = [*os.environ.get("PIP_FIND_LINKS", "").split(), *os.environ.get("UV_FIND_LINKS", "").split(",")]
    links = [f"--find-links={folder}" for folder in folders if folder]
    tried = ("pip", "install", "--dry-run", "--no-deps", "--quiet", "--python", PYTHON)
    if framework and ran(UV, *tried, *links, framework):  # before anything is taken out of .venv
        raise SetupError(f"{framework} was not found: choose a version that pip finds here; .venv is as it was")
    lock = lock_for(gpu)
    text = lock.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        packages = Path(folder, "packages.lock")
        packages.write_text(without_framework(text) if framework else text, encoding="utf-8")
        again = (f"--reinstall-package={name}" for name in in_wheels())  # may be built again with the same version
        install("sync", *again, "--require-hashes", packages, "requirements-dev.lock", TOOLS)
    CHOSEN.unlink(missing_ok=True)
    if framework:
        install("install", *links, framework)
        CHOSEN.write_text(f"{framework}\n", encoding="utf-8")
        say(f"{framework} instead of the locked one: numbers may differ a little from the image's")
        say("the next scripts/setup takes it again; scripts/setup --framework locked goes back")
    say(f".venv holds {lock} and requirements-dev.lock")


def lock_for(gpu: bool) -> Path:
    """Return the lock of the packages, the one with the GPU libraries if there is such a lock."""
    lock = Path("requirements-gpu.lock")
    return lock if gpu and lock.is_file() else Path("requirements.lock")


def link_project() -> None:
    """Let src/ be found in .venv from any folder, before the runtime in wheels/, and [project.scripts] in .venv/bin.

    A copy of the runtime in src/ counts in place of the wheel, as it does in the scripts.
    """
    line = f"import sys; sys.path.insert(0, {str(Path('src').resolve())!r})\n"
    for packages in VENV.glob("lib/python*/site-packages"):
        (packages / "project.pth").write_text(line, encoding="utf-8")
        write_project(Path(), packages)  # so that the code can ask for its own version
    for name, value in read_project(Path()).get("scripts", {}).items():
        program = VENV / "bin" / name
        call = f"from importlib.metadata import EntryPoint\nsys.exit(EntryPoint({name!r}, {value!r}, '').load()())\n"
        program.write_text(f"#!{PYTHON.absolute()}\nimport sys\n{call}", encoding="utf-8")
        program.chmod(0o755)


def not_locked() -> list[str]:
    """Return what pyproject.toml requires and no lock names: the owner wrote it down and did not lock it yet."""
    held = "".join(lock.read_text(encoding="utf-8") for lock in Path().glob("requirements*.lock"))
    there = {normal(found) for found in re.findall(NAMED, held)}
    asked = dict.fromkeys(one for texts in required(Path()).values() for one in texts)
    return [one for one in asked if normal(re.split(r"[^\w.-]", one.strip())[0]) not in there]


def normal(name: str) -> str:
    """Return the name of a package as locks write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def framework_of(words: list[str]) -> str:
    """Return the framework that the command line or the last run chose, "" for the locked one. Raises SetupError."""
    if not words:
        return CHOSEN.read_text(encoding="utf-8").strip() if CHOSEN.is_file() else ""
    if words[0] != "--framework":
        raise SetupError(f"unknown option {words[0]}: see scripts/setup --help", 2)
    if not "".join(words[1:2]):
        raise SetupError("--framework needs PACKAGE==VERSION, for example torch==2.13.0, or the word locked", 2)
    return "" if words[1] == "locked" else words[1]


def main(words: list[str]) -> int:
    """Make the environment; return the exit code."""
    gpu = words[:1] == ["--gpu"]
    try:
        framework = framework_of(words[1:] if gpu else words)
        if not os.access(UV, os.X_OK) or is_of_another_folder():
            say(f"making {VENV} with Python {'.'.join(map(str, sys.version_info[:3]))}")
            make_venv(VENV)
        lock_runtime()
        fill(framework, gpu)
        link_project()
        FOLDER.write_text(f"{Path.cwd()}\n", encoding="utf-8")
        missing = ", ".join(not_locked())
        say(f"not in the locks: {missing}; next: scripts/lock, then scripts/setup" if missing else "next: scripts/test")
    except SetupError as error:
        say(str(error))
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
