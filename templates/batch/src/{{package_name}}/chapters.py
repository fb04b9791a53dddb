"""A small real data set: lines of Python's language reference, which every Python carries, by chapter."""

import pydoc_data.topics
from collections import Counter

Example = tuple[str, int]
CHAPTERS = 8


def lines_of_chapters() -> list[Example]:
    """Return the lines of the longest chapters, sorted, each with the number of its chapter from 0 to CHAPTERS - 1."""
    chapters = Counter({name: len(text) for name, text in pydoc_data.topics.topics.items()})
    return sorted(
        (line.strip(), label)
        for label, (name, _) in enumerate(chapters.most_common(CHAPTERS))
        for line in pydoc_data.topics.topics[name].splitlines()
        if len(line.split()) > 3
    )
