"""How base-install ends when something is wrong: one line on standard error, and a code that says whose turn it is."""

from typing import NoReturn

DOES_NOT_FIT, WRONG_USE, FAILED = 1, 2, 3


class Problem(Exception):
    """Ends base-install with one line and an exit code."""

    def __init__(self, message: str, code: int = DOES_NOT_FIT) -> None:
        super().__init__(message)
        self.code = code


def stop(message: str, code: int = DOES_NOT_FIT) -> NoReturn:
    """Raise the Problem that ends the program."""
    raise Problem(message, code)
