"""Start the job's command line: python -m gpu_repo_runtime.batch PACKAGE run --input ... --output ..."""

import importlib.util
import os
import signal
import sys
from collections.abc import Sequence

from ..allocator import keep_memory
from ..cores import fit_threads
from .exits import BAD_CONFIGURATION, SIGNAL
from .streams import open_closed, outlive_readers, put_back
from .watched import die_with, watched


def start(package: str, arguments: Sequence[str]) -> int:
    """Do what the arguments say around `<package>.model`, or `<package>.task`, and return the exit code."""
    open_closed()
    if importlib.util.find_spec(package) is None:
        print(f"job: there is no package {package} here: call it where src/ is on PYTHONPATH", file=sys.stderr)
        return BAD_CONFIGURATION

    def work() -> int:
        outlive_readers()
        fit_threads()
        keep_memory()
        try:
            # Only now: NumPy and the framework decide on their threads when they are imported.
            from .cli import main

            return main(package, arguments)
        except KeyboardInterrupt:
            # Where nothing waits for a signal, which `run` does from its first look at the input on.
            print("job: stopped by Ctrl-C; start the same command again", file=sys.stderr)
            return SIGNAL + signal.SIGINT
        finally:
            put_back()
            sys.stdout.flush()

    if "JOB_PARENT" in os.environ:
        die_with(int(os.environ.pop("JOB_PARENT")))
    return watched(work)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not sys.argv[1].isidentifier():
        print("job: which package holds model.py? python -m gpu_repo_runtime.batch PACKAGE --help", file=sys.stderr)
        sys.exit(BAD_CONFIGURATION)
    sys.exit(start(sys.argv[1], sys.argv[2:]))
