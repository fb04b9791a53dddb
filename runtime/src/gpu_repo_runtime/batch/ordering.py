"""The rows of a part sorted by length, so that little of a batch is padding, and back in the order of the input."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from .estimates import estimate
from .parquet import as_json
from .parts import FILE, INPUT, ROW, BadRow, Part
from .shapes import Taken

# A part with more text than this stays as it was read, and each batch is taken out of it when its turn comes.
COPIED_BYTES = 8 << 20
_SHORT = np.iinfo(np.uint16).max


@dataclass
class Sorted:
    """A part whose texts are sorted: text i, of length `lengths[i]`, is the good row `order[i]` of the part.

    texts: all of them in that order, where they are few bytes. is_text: the model takes texts, and not inputs that are
    made of columns or of lines of JSON.
    """

    part: Part
    lengths: np.ndarray
    order: np.ndarray
    texts: list[str] | None = None
    is_text: bool = True

    @classmethod
    def of(cls, part: Part, typed: Taken | None = None) -> "Sorted":
        """Return the part with its longest texts first: if memory does not suffice it shows at once."""
        texts = part.table[INPUT]
        found = [_lengths(chunk, typed) if typed else estimate(chunk) for chunk in texts.chunks]
        lengths = np.concatenate([np.zeros(0, np.int64), *found])
        order = _longest_first(lengths)
        rows = cls(part, lengths[order], order, is_text=typed is None)
        if rows.is_text and texts.nbytes <= COPIED_BYTES:
            rows.texts = _as_list(texts.combine_chunks().take(pa.array(order)))
        return rows

    def __len__(self) -> int:
        """Return the number of good rows."""
        return len(self.order)

    def some(self, begin: int, end: int) -> list[str] | pa.Array:
        """Return the texts from one place in their order to another, or what the inputs there are made of."""
        if self.texts is not None:
            return self.texts[begin:end]
        found = _picked(self.part.table[INPUT], self.order[begin:end])
        return _as_list(found) if self.is_text else found

    def by(self, lengths: np.ndarray) -> "Sorted":
        """Return the part sorted by other lengths of its texts, which are in the order so far."""
        again = _longest_first(lengths)
        texts = self.texts and [self.texts[i] for i in again]
        return Sorted(self.part, lengths[again], self.order[again], texts, self.is_text)

    def bad_rows(self, reasons: dict[int, str]) -> list[BadRow]:
        """Return the bad rows of the part, from reading it and from `reasons`: place in the order -> why."""
        places = self.order[np.array(list(reasons), np.int64)]
        files, numbers, values = (_picked(self.part.table[name], places) for name in (FILE, ROW, INPUT))
        rows = zip(files.to_pylist(), numbers.to_pylist(), values, reasons.values(), strict=True)
        unfit = [BadRow(row, reason, raw=as_raw(value), file=file) for file, row, value, reason in rows]
        place = {file.name: n for n, file in enumerate(self.part.files)}
        return sorted(self.part.bad + unfit, key=lambda bad: (place[bad.file], bad.row))

    def in_order_of_input(self, results: pa.Table, failed: list[int]) -> pa.Table:
        """Return the good rows with their results beside them.

        results: those of all texts but the places `failed`, in the order of the texts. The text for the model is left
        out; the kept columns and the row's number stay.
        """
        good = np.delete(self.order, failed) if failed else self.order
        table = self.part.table.drop_columns([INPUT])
        if len(good) == len(table) and np.all(np.diff(good) == 1):
            return pa.table([*table.columns, *results.columns], schema=pa.schema([*table.schema, *results.schema]))
        place = np.full(len(table), -1)
        place[good] = np.arange(len(good))
        back = place[place >= 0]
        if failed:
            table = table.filter(pa.array(place >= 0))
        for field, column in zip(results.schema, results.take(pa.array(back)).columns, strict=True):
            table = table.append_column(field, column)
        return table


def _longest_first(lengths: np.ndarray) -> np.ndarray:
    """Return the places of the lengths, that of the largest first."""
    below = lengths.max(initial=0) - lengths
    # NumPy sorts numbers of 16 bits ten times as fast, and few texts are so uneven that it takes more.
    if below.max(initial=0) <= _SHORT:
        below = below.astype(np.uint16)
    # Stable, so that each run makes the same batches.
    return np.argsort(below, kind="stable")


def as_raw(value: pa.Scalar) -> bytes | None:
    """Return what went to the model: a text or a line as it is, columns as JSON; None for what JSON does not have."""
    if pa.types.is_struct(value.type):
        return as_json(pa.Table.from_struct_array(pa.array([value], value.type)))
    return str(value.as_py()).encode()


def _picked(values: pa.ChunkedArray, places: np.ndarray) -> pa.Array:
    """Return some of the values; pyarrow would make one array of all chunks first."""
    if len(places) and places[-1] - places[0] == len(places) - 1 and np.all(np.diff(places) == 1):
        found = values.slice(places[0], len(places))
        return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()
    if values.num_chunks == 1:
        return values.chunk(0).take(pa.array(places))
    ends = np.cumsum([len(chunk) for chunk in values.chunks])
    which = np.searchsorted(ends, places, side="right")
    found = [
        values.chunk(n).take(pa.array(places[which == n] - ends[n] + len(values.chunk(n)))) for n in np.unique(which)
    ]
    back = np.argsort(np.argsort(which, kind="stable"))
    return pa.concat_arrays(found).take(pa.array(back)) if found else pa.array([], values.type)


def _as_list(texts: pa.StringArray) -> list[str]:
    found: list[str] = texts.to_numpy(zero_copy_only=False).tolist()
    return found


def _lengths(values: pa.Array, typed: Taken) -> np.ndarray:
    """Return (values,) int64: about how long the texts of inputs are; zeros where they have none."""
    if pa.types.is_string(values.type):
        return estimate(values)
    texts = {column for key, column in typed.fields if key in typed.shape.texts} - typed.files
    fields = [field.name for field in values.type if pa.types.is_string(field.type) and field.name in texts]
    lengths = [estimate(values.field(name).fill_null("")) for name in fields]
    return sum(lengths, np.zeros(len(values), np.int64))
