"""``python -m <package>.job``: the command of every version."""

import sys

from gpu_repo_runtime.batch.__main__ import start

if __name__ == "__main__":
    assert __package__
    sys.exit(start(__package__.split(".")[0], sys.argv[1:]))
