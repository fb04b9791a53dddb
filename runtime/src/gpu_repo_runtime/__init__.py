"""What runs in a repository of the family and is not its owner's: the service, the batch job, the training."""

import sys
from types import TracebackType


def stopped(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Tell in one line that somebody pressed Ctrl-C; the exit is still that of a program ended by it."""
    if issubclass(kind, KeyboardInterrupt):
        print("stopped by Ctrl-C", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


if sys.argv[:1] == ["-m"]:  # a program of this package begins, and is not imported by an owner's
    sys.excepthook = stopped
