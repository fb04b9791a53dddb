BUCKETS = 1 << 15
DIMENSION = 64
MAX_WORDS = 512


def word_ids(texts: list[str]) -> np.ndarray:
    """Return (texts, longest) int64 rows of the hashing table; row 0 is all zeros and fills up shorter texts."""
    rows = [[1 + zlib.crc32(w.encode()) % BUCKETS for w in re.findall(r"\w+", t.lower())[:MAX_WORDS]] for t in texts]
    ids = np.zeros((len(rows), max(map(len, rows), default=0) or 1), dtype=np.int64)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row)] = row
    return ids


def hashing_table() -> np.ndarray:
    """Return the (1 + BUCKETS, DIMENSION) float32 table of word vectors: random, but the same on every machine."""
    table = np.random.default_rng(0).standard_normal((1 + BUCKETS, DIMENSION), dtype=np.float32)
    table[0] = 0
    return table
