"""The texts of the comparisons: real lines, and pieces of them whose lengths differ much."""

from __future__ import annotations

import pydoc_data.topics
import random
from itertools import cycle, islice


def real_lines() -> list[str]:
    """Return lines of Python's own language reference: real text that every Python carries."""
    text = "\n".join(pydoc_data.topics.topics.values())
    return [line.strip() for line in text.splitlines() if len(line.split()) > 3]


def even(rows: int) -> list[str]:
    """Return real lines, again and again."""
    return list(islice(cycle(real_lines()), rows))


def uneven(rows: int) -> list[str]:
    """Return real text cut into pieces whose number of words is log-normal: median 20, some over 200."""
    words = " ".join(real_lines()).split()
    chance = random.Random(0)
    texts = []
    for _ in range(rows):
        length = max(1, min(400, round(chance.lognormvariate(3.0, 1.0))))
        start = chance.randrange(len(words) - length)
        texts.append(" ".join(words[start : start + length]))
    return texts
