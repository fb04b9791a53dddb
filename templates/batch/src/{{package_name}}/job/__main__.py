"""Start the job's command line: python -m <package>.job"""

import os
import sys

from ..cores import fit_threads
from .watched import die_with, watched


def _work() -> int:
    fit_threads()
    # Only now: NumPy and the framework decide on their threads when they are imported.
    from .cli import main

    return main()


if __name__ == "__main__":
    if "JOB_PARENT" in os.environ:
        die_with(int(os.environ.pop("JOB_PARENT")))
    sys.exit(watched(_work))
