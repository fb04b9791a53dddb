"""Numbers in text that are too large or too small for a double: Python and pydantic make infinity or 0 of them."""

import json
import re
from math import isinf
from typing import Any

# An exponent of three digits, or so many digits that a smaller one is enough.
_SUSPECT = re.compile(r"[eE][+-]?\d{3}|\d{200}")
_SMALL = re.compile(rb"[eE]-\d{3}|0{200}")
_DIGIT = re.compile(r"[1-9]")


def may_be_lost(text: str) -> bool:
    """Tell whether there may be such a number in a text; quick, and mostly no."""
    return _SUSPECT.search(text) is not None


def may_be_too_small(text: bytes) -> bool:
    """Tell whether there may be a number in a text that a double takes for 0; quick, and mostly no."""
    return _SMALL.search(text) is not None


def is_lost(number: str) -> bool:
    """Tell whether a number becomes infinite, or 0 without being it."""
    value = float(number)
    return isinf(value) or (value == 0 and _DIGIT.search(number.lower().partition("e")[0]) is not None)


def loses(line: str) -> bool:
    """Tell whether a number of a line of JSON is lost so; `Infinity` itself is none of them."""
    found = []

    def parsed(number: str) -> float:
        found.append(is_lost(number))
        return float(number)

    json.loads(line, parse_float=parsed)
    return any(found)


def cell_loses(cell: str) -> bool:
    """Tell whether a cell of CSV loses its number so; or one of its numbers, where it is JSON."""
    try:
        return loses(cell) if cell.lstrip().startswith(("[", "{")) else is_lost(cell)
    except ValueError:
        return False


def has_bound(value: Any) -> bool:
    """Tell whether there is an infinite number or 0.0 in a value of Python, also in its lists and objects."""
    if isinstance(value, dict):
        return any(map(has_bound, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(has_bound, value))
    return isinstance(value, float) and (isinf(value) or value == 0)
