"""Numbers in text that are too large for a double: Python and pydantic make infinity of them."""

import json
import re
from math import isinf
from typing import Any

# An exponent of three digits, or so many digits that a smaller one is enough.
_SUSPECT = re.compile(r"[eE]\+?\d{3}|\d{200}")


def may_be_too_large(text: str) -> bool:
    """Tell whether there may be such a number in a text; quick, and mostly no."""
    return _SUSPECT.search(text) is not None


def overflows(line: str) -> bool:
    """Tell whether a number of a line of JSON becomes infinite; `Infinity` itself is none of them."""
    found = []

    def parsed(number: str) -> float:
        value = float(number)
        found.append(isinf(value))
        return value

    json.loads(line, parse_float=parsed)
    return any(found)


def has_infinity(value: Any) -> bool:
    """Tell whether there is an infinite number in a value of Python, also in its lists and objects."""
    if isinstance(value, dict):
        return any(map(has_infinity, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(has_infinity, value))
    return isinstance(value, float) and isinf(value)
