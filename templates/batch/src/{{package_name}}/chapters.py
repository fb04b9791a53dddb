"""A small real data set: lines of Python's language reference, which every Python carries, by chapter."""

import pydoc_data.topics
import re
import zlib
from collections import Counter

import numpy as np

Example = tuple[str, int]
CHAPTERS = 8
BUCKETS = 1 << 15
MAX_WORDS = 512


def lines_of_chapters() -> list[Example]:
    """Return the lines of the longest chapters, sorted, each with the number of its chapter from 0 to CHAPTERS - 1."""
    chapters = Counter({name: len(text) for name, text in pydoc_data.topics.topics.items()})
    return sorted(
        (line.strip(), label)
        for label, (name, _) in enumerate(chapters.most_common(CHAPTERS))
        for line in pydoc_data.topics.topics[name].splitlines()
        if len(line.split()) > 3
    )


def word_ids(texts: list[str]) -> np.ndarray:
    """Return (texts, longest) int64 numbers of words, from 1 to BUCKETS; zeros fill up shorter texts."""
    rows = [[1 + zlib.crc32(w.encode()) % BUCKETS for w in re.findall(r"\w+", t.lower())[:MAX_WORDS]] for t in texts]
    ids = np.zeros((len(rows), max(map(len, rows), default=0) or 1), dtype=np.int64)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row)] = row
    return ids
