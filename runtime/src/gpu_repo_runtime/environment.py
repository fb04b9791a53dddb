"""Make .venv of a repository: its locked packages, its tools and, on a machine with a GPU, the GPU libraries.

scripts/setup starts it, straight from the wheel: it needs nothing but Python.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .locking import RUNTIME, in_wheels, without
from .package_index import rejected_login
from .project import described, write
from .script_error import ScriptError

VENV = Path(".venv")
TOOLS = "scripts/tools/uv.lock"
CHOSEN = VENV / "framework"  # the build that --framework chose, for the next run
FOLDER = VENV / "folder"  # the repository that .venv was made for; programs in .venv/bin contain its path
CUDA = re.compile(r"(torch|tensorflow|jax|jaxlib|jax-cuda.*|triton|nvidia-.*|cuda-.*)==")


def say(message: str) -> None:
    """Say what is done, as the scripts do."""
    print(f"setup: {message}", file=sys.stderr, flush=True)


def ran(*command: str | Path) -> int:
    """Run a command and return its exit code; its output stays visible."""
    return subprocess.run(command, check=False).returncode


def install(uv: str, venv: Path, *words: str | Path) -> None:
    """Run `uv pip` on an environment. Raises ScriptError; uv has said why."""
    if code := ran(uv, "pip", *words, "--quiet", "--python", venv / "bin" / "python"):
        raise ScriptError(code, rejected_login() or "the packages were not installed (see above)")


def make_venv(folder: Path) -> None:
    """Make an environment that contains the locked uv and nothing else. Raises ScriptError."""
    if folder.is_symlink() and (not folder.is_dir() or any(folder.iterdir())):
        told = f"{folder} is a link to a folder that is not there, or that is not empty and would be emptied"
        raise ScriptError(2, f"{told}: remove the link")
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", TOOLS)
    if ran(sys.executable, "-m", "venv", "--clear", folder) or ran(folder / "bin" / "python", *pip):
        raise ScriptError(1, f"{folder} was not made (see above)")


def make_copier(uv: str) -> Path:
    """Make build/copier with the locked Copier, unless it is there; return its Python. Raises ScriptError."""
    folder, lock = Path("build/copier"), Path("scripts/tools/copier.lock")
    held, python = folder / "lock", folder / "bin" / "python"
    if not held.is_file() or held.read_bytes() != lock.read_bytes():
        print(f"update: installing Copier into {folder}", file=sys.stderr, flush=True)
        if ran(uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder):
            raise ScriptError(1, f"{folder} was not made (see above)")
        install(uv, folder, "sync", "--require-hashes", lock)
        held.write_bytes(lock.read_bytes())
    return python


def lock_runtime() -> None:
    """Resolve the locks again where the template has brought another runtime than they name. Raises ScriptError."""
    runtime = RUNTIME.read_text(encoding="utf-8").rpartition(" @ ")[2].strip() if RUNTIME.is_file() else ""
    if not runtime or f"@ {runtime}" in Path("requirements.lock").read_text(encoding="utf-8"):
        return
    say(f"the template brought {runtime}, which requirements.lock does not name: running scripts/lock")
    if ran("scripts/lock"):
        told = f"scripts/lock must resolve the locks for {runtime}, with a package index within reach"
        raise ScriptError(1, f"{told}; .venv is as it was")
    say("commit the changed locks together with wheels/")


def fill(uv: str, venv: Path, lock: Path, framework: str) -> None:
    """Let an environment contain what the locks name, and the project; `framework` replaces the locked one.

    Raises ScriptError; uv has said why.
    """
    # uv does not read PIP_FIND_LINKS, and an option takes the place of UV_FIND_LINKS.
    folders = [*os.environ.get("PIP_FIND_LINKS", "").split(), *os.environ.get("UV_FIND_LINKS", "").split(",")]
    links = [f"--find-links={folder}" for folder in folders if folder]
    if framework:  # before anything is taken out
        install(uv, venv, "install", "--dry-run", "--no-deps", *links, framework)
    text = lock.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        packages = Path(folder, "packages.lock")
        packages.write_text(without(text, CUDA) if framework else text, encoding="utf-8")
        again = (f"--reinstall-package={name}" for name in in_wheels())  # may be built again with the same version
        install(uv, venv, "sync", *again, "--require-hashes", packages, "requirements-dev.lock", TOOLS)
    if framework:
        install(uv, venv, "install", *links, framework)
    link_project(venv)


def link_project(venv: Path) -> None:
    """Let src/ be found in an environment from any folder, before the runtime in wheels/, and its [project.scripts].

    A copy of the runtime in src/ counts in place of the wheel, as it does in the scripts.
    """
    record = venv.absolute() / "project"
    shutil.rmtree(record, ignore_errors=True)
    write(Path(), record)
    lines = f"import sys; sys.path.insert(0, {str(Path('src').resolve())!r})\n{record}\n"
    for packages in venv.glob("lib/python*/site-packages"):
        (packages / "project.pth").write_text(lines, encoding="utf-8")
    for name, value in described().get("scripts", {}).items():
        program = venv / "bin" / name
        call = f"from importlib.metadata import EntryPoint\nsys.exit(EntryPoint({name!r}, {value!r}, '').load()())\n"
        program.write_text(f"#!{venv.absolute()}/bin/python\nimport sys\n{call}", encoding="utf-8")
        program.chmod(0o755)


def chosen() -> str:
    """Return the framework that an earlier `scripts/setup --framework` chose, "" for the locked one."""
    return CHOSEN.read_text(encoding="utf-8").strip() if CHOSEN.is_file() else ""


def make(gpu: bool, framework: str) -> None:
    """Make .venv, with the GPU libraries if there is a lock with them. Raises ScriptError.

    `framework` is PACKAGE==VERSION, or "" for the locked one.
    """
    uv = VENV / "bin" / "uv"
    # Programs in .venv that was copied or moved here would run the code of the other folder.
    moved = FOLDER.is_file() and FOLDER.read_text(encoding="utf-8").strip() != str(Path.cwd())
    if moved or not os.access(uv, os.X_OK):
        say(f"making {VENV} with Python {'.'.join(map(str, sys.version_info[:3]))}")
        make_venv(VENV)
    lock_runtime()
    for_gpu = Path("requirements-gpu.lock")
    lock = for_gpu if gpu and for_gpu.is_file() else Path("requirements.lock")
    fill(str(uv), VENV, lock, framework)
    FOLDER.write_text(f"{Path.cwd()}\n", encoding="utf-8")
    CHOSEN.unlink(missing_ok=True)
    if framework:
        CHOSEN.write_text(f"{framework}\n", encoding="utf-8")
        say(f"{framework} instead of the locked one: numbers may differ a little from the image's")
        say("the next scripts/setup takes it again; scripts/setup --framework locked goes back")
    say(f".venv holds {lock} and requirements-dev.lock; next: scripts/test")
