"""Start the job's command line: python -m gpu_repo_runtime.batch PACKAGE run --input ... --output ..."""

import ctypes
import importlib.util
import os
import signal
import sys
from collections.abc import Sequence

from ..cores import fit_threads
from .exits import BAD_CONFIGURATION, RETRY, SIGNAL

_DIE_WITH_PARENT = 1


def start(package: str, arguments: Sequence[str]) -> int:
    """Do what the arguments say around `<package>.model`, or `<package>.task`, and return the exit code."""
    if importlib.util.find_spec(package) is None:
        print(f"job: there is no package {package} here: call it where src/ is on PYTHONPATH", file=sys.stderr)
        return BAD_CONFIGURATION
    if "JOB_PARENT" in os.environ:
        die_with(int(os.environ.pop("JOB_PARENT")))
    fit_threads()
    try:
        # Only now: NumPy and the framework decide on their threads when they are imported.
        from .cli import main

        return main(package, arguments)
    except KeyboardInterrupt:
        # Before the job waits for signals itself.
        print("job: stopped by Ctrl-C; start the same command again", file=sys.stderr)
        return SIGNAL + signal.SIGINT


def die_with(parent: int) -> None:
    """Let this process be killed when its parent ends, on Linux; at once when it has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(RETRY)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not sys.argv[1].isidentifier():
        print("job: which package contains model.py? python -m gpu_repo_runtime.batch PACKAGE --help", file=sys.stderr)
        sys.exit(BAD_CONFIGURATION)
    sys.exit(start(sys.argv[1], sys.argv[2:]))
