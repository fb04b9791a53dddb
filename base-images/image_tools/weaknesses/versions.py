"""The order of versions: Python's and Debian's, each as a key that can be compared."""

from __future__ import annotations

import re

from gpu_repo_runtime.advisories import Order, python

PARTS = re.compile(r"(\D*)(\d*)")


def weight(sign: str) -> int:
    """Return the place of a sign in Debian's order: the tilde before the end, letters before all others."""
    return -1 if sign == "~" else ord(sign) if sign.isalpha() else ord(sign) + 256


def parts(text: str) -> list[tuple[list[int], int]]:
    """Return a version's part as pairs of text and number; a text ends with 0, so that a tilde comes before its end."""
    return [([*map(weight, letters), 0], int(digits or 0)) for letters, digits in PARTS.findall(text)]


def debian(text: object) -> tuple[int, list[tuple[list[int], int]], list[tuple[list[int], int]]] | None:
    """Return the key of a Debian package's version (deb-version(7)), None for what is none."""
    match = re.fullmatch(r"(?:(\d+):)?([0-9][A-Za-z0-9.+~:-]*?)(?:-([A-Za-z0-9.+~]+))?", str(text).strip())
    return (int(match[1] or 0), parts(match[2]), parts(match[3] or "0")) if match else None


def order_of(ecosystem: str) -> Order:
    """Return the order of an ecosystem's versions."""
    return debian if ecosystem.startswith("Debian") else python
