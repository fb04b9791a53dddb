"""``<package>.job.cli``, as versions 0.1 and 0.2 had it."""

import sys
from collections.abc import Sequence

from gpu_repo_runtime.batch import cli


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line around the project's own model and return the exit code."""
    return cli.main(__name__.split(".")[0], sys.argv[1:] if arguments is None else arguments)
