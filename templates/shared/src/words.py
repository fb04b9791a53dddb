MAX_WORDS, MAX_LETTERS = 512, 64


class Words:
    """Pieces of English words, each with a row of the table; row 0 is all zeros and stands for none."""

    def __init__(self, folder: Path) -> None:
        with np.load(folder / "words.npz") as stored:
            pieces = stored["pieces"].tobytes().decode().split("\n")
            self.table: np.ndarray = stored["table"] * stored["scales"][:, None]
        self.rows = {piece: row for row, piece in enumerate(pieces)}
        self.split = lru_cache(1 << 16)(self._split)

    def _split(self, word: str) -> tuple[int, ...]:
        """Return the rows of the longest pieces from the left; none for a word that they do not make up."""
        found: list[int] = []
        start, end = 0, len(word) if len(word) <= MAX_LETTERS else 0
        while start < end:
            row = self.rows.get(("##" if start else "") + word[start:end])
            if row is None:
                end -= 1
            else:
                found.append(row)
                start, end = end, len(word)
        return tuple(found) if start == len(word) else ()

    def ids(self, texts: list[str]) -> np.ndarray:
        """Return (texts, longest) int64 rows of the table; zeros fill up shorter texts."""
        plain = [re.sub(r"[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text.lower())) for text in texts]
        words = [re.findall(r"\w+|[^\w\s]", text)[:MAX_WORDS] for text in plain]
        rows = [[row for word in line for row in self.split(word)] for line in words]
        ids = np.zeros((len(rows), max(map(len, rows), default=0) or 1), dtype=np.int64)
        for line, row in zip(ids, rows, strict=True):
            line[: len(row)] = row
        return ids
