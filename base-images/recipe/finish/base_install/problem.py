"""How base-install ends when it does not install."""

import sys
from typing import NoReturn

DOES_NOT_FIT, WRONG_USE, FAILED = 1, 2, 3


def stop(message: str, code: int = DOES_NOT_FIT) -> NoReturn:
    """End the program with one line."""
    print(f"base-install: {message}", file=sys.stderr)
    raise SystemExit(code)
