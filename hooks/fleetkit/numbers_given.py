"""Numbers as options take them: finite, and in their range."""

from __future__ import annotations

import argparse
import math
from functools import partial


def number(text: str, low: float, high: float = math.inf, whole: bool = False) -> float:
    """Return the number that an option takes, from `low` to `high`; nan and inf are none."""
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not low <= value <= high:
        up_to = f" to {high:g}" if math.isfinite(high) else " or more"
        raise argparse.ArgumentTypeError(f"{text!r} is not a {'whole ' if whole else ''}number from {low:g}{up_to}")
    return value


share = partial(number, low=0, high=1)
amount = partial(number, low=0)
count = partial(number, low=0, whole=True)
at_least_one = partial(number, low=1, whole=True)
