"""Errors and messages of the command."""

from __future__ import annotations

import sys

REFUSED, WRONG_USE, AWAY = 1, 2, 3


class WeightsError(Exception):
    """Weights are wrong or missing; the message says what to do, `code` is the exit code."""

    def __init__(self, message: str, code: int = REFUSED) -> None:
        super().__init__(message)
        self.code = code


def say(message: str) -> None:
    """Print a message on stderr as one printable line: a server or a file name may contain anything."""
    line = "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in " ".join(message.splitlines()))
    print(f"weights: {line}", file=sys.stderr, flush=True)
