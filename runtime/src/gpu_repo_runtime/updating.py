"""Become the update, in an environment that holds the Copier of scripts/tools/copier.lock: build/copier.

usage: updating [options of the update]

scripts/update starts it, straight from the wheel. Exit code 1 where Copier cannot be had, else those of the update.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .environment import UV, SetupError, make_venv, ran

COPIER, LOCK = Path("build/copier"), Path("scripts/tools/copier.lock")
HELD = COPIER / "lock"
OWN_UV = Path("build/uv/bin/uv")


def install_copier() -> None:
    """Make build/copier, unless it holds what the lock names. Raises SetupError."""
    wanted = LOCK.read_bytes()
    if HELD.is_file() and HELD.read_bytes() == wanted:
        return
    print(f"update: installing Copier into {COPIER}", file=sys.stderr, flush=True)
    uv = UV
    if not os.access(uv, os.X_OK):
        make_venv(OWN_UV.parent.parent)
        uv = OWN_UV
    python = uv.with_name("python")
    if ran(uv, "venv", "--quiet", "--clear", "--python", python, COPIER) or ran(
        *(uv, "pip", "sync", "--quiet", "--python", COPIER / "bin" / "python", "--require-hashes", LOCK)
    ):
        raise SetupError("Copier was not installed; see above")
    HELD.write_bytes(wanted)


def main(words: list[str]) -> int:
    """Become the update, or return the exit code."""
    own = {name: os.environ.pop(name) for name in ("PYTHONPATH", "PYTHONSAFEPATH") if name in os.environ}
    try:
        install_copier()
    except SetupError as error:
        print(f"update: {error}", file=sys.stderr)
        return 1
    python = str(COPIER / "bin" / "python")
    os.environ.update(own)
    found = UV if os.access(UV, os.X_OK) else OWN_UV  # the update may have to resolve what a new runtime needs
    os.environ["PATH"] = os.pathsep.join([str(found.parent.resolve()), os.environ.get("PATH", "")])
    os.execv(python, [python, "-m", "gpu_repo_runtime.update", *words])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
