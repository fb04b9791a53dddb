"""``<package>.job.cli``, as versions 0.1 and 0.2 had it."""

import sys
import warnings
from collections.abc import Sequence

from gpu_repo_runtime.batch import cli


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line around the project's own model and return the exit code."""
    package = __name__.split(".")[0]
    warnings.warn(
        f"{__name__} is from version 0.2: write 'from gpu_repo_runtime.batch.cli import main' "
        f'and main("{package}", arguments)',
        DeprecationWarning,
        stacklevel=2,
    )
    return cli.main(package, sys.argv[1:] if arguments is None else arguments)
