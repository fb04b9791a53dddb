"""The rows of a part sorted by length, so that little of a batch is padding, and back in the order of the input."""

from dataclasses import dataclass
from string import ascii_letters

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import Columns
from .parquet import as_json
from .parts import FILE, INPUT, ROW, BadRow, Part

# What a tokenizer mostly takes alone: a sign, a digit, a character of another script; of the rest, some letters.
_ALONE = np.ones(256, bool)
_ALONE[[*range(33), *ascii_letters.encode(), *range(0x80, 0xCA)]] = False
_LETTERS = 5


@dataclass
class Sorted:
    """A part whose `inputs` are sorted: input i, of length `lengths[i]`, is the good row `order[i]` of the part.

    is_text: the model takes texts, and not inputs that are made of columns or of lines of JSON.
    """

    part: Part
    inputs: pa.Array
    lengths: np.ndarray
    order: np.ndarray
    is_text: bool = True

    @classmethod
    def of(cls, part: Part, columns: Columns) -> "Sorted":
        """Return the part with its longest texts first: if memory does not suffice it shows at once."""
        inputs = part.inputs
        lengths = estimate(inputs) if pa.types.is_string(inputs.type) else _lengths(inputs, columns)
        order = np.argsort(-lengths, kind="stable")  # stable, so that each run makes the same batches
        is_sorted = bool(np.all(np.diff(order) > 0))
        ordered = inputs if is_sorted else inputs.take(pa.array(order))
        return cls(part, ordered, lengths[order], order, is_text=bool(columns.text))

    def some(self, begin: int, end: int) -> list[str] | pa.Array:
        """Return the texts from one place in their order to another, or what the inputs there are made of."""
        found = self.inputs[begin:end]
        return found.to_pylist() if self.is_text else found

    def bad_rows(self, reasons: dict[int, str]) -> list[BadRow]:
        """Return the bad rows of the part, from reading it and from `reasons`: place in the order -> why."""
        rows = self.part.table.take(pa.array(self.order[[*reasons]], pa.int64()))
        kept = rows.drop_columns([FILE, ROW, INPUT]).to_pylist()
        names = rows.select([FILE, ROW, INPUT]).columns
        unfit = [
            BadRow(row.as_py(), reason, raw=_as_raw(value), file=file.as_py(), kept=own)
            for file, row, value, reason, own in zip(*names, reasons.values(), kept, strict=True)
        ]
        place = {file.name: n for n, file in enumerate(self.part.files)}
        return sorted(self.part.bad + unfit, key=lambda bad: (place[bad.file], bad.row))

    def in_order_of_input(self, results: pa.Table, failed: list[int]) -> pa.Table:
        """Return the good rows with their results beside them, without what went to the model.

        results: those of all texts but the places `failed`, in the order of the texts.
        """
        good = np.delete(self.order, failed)
        table = self.part.table.drop_columns([INPUT])
        if failed:
            table = table.take(pa.array(np.sort(good)))
        if np.any(np.diff(good) < 0):
            results = results.take(pa.array(np.argsort(good)))
        return pa.table([*table.columns, *results.columns], schema=pa.schema([*table.schema, *results.schema]))


def _as_raw(value: pa.Scalar) -> bytes | None:
    """Return what went to the model: a text or a line as it is, columns as JSON; None for what JSON does not have."""
    if pa.types.is_struct(value.type):
        return as_json(pa.Table.from_struct_array(pa.array([value], value.type)))
    return str(value.as_py()).encode()


def _lengths(values: pa.Array, columns: Columns) -> np.ndarray:
    """Return (values,) int64: about how long the texts and lists of inputs are; zeros where they have none."""
    texts = {field.column for field in columns.fields if field.kind in ("text", "nested", "other")}
    fields = [field.name for field in values.type if pa.types.is_string(field.type) and field.name in texts]
    lengths = [estimate(values.field(name).fill_null("")) for name in fields]
    lists = [pc.list_value_length(values.field(one.name)) for one in values.type if pa.types.is_list(one.type)]
    return sum([*lengths, *(one.fill_null(0).to_numpy() for one in lists)], np.zeros(len(values), np.int64))


def estimate(texts: pa.StringArray) -> np.ndarray:
    """Return (texts,) int64: about how long texts are, in proportion to their tokens and not to their bytes.

    A text that is thought too long pads itself, one that is thought too short pads all others of its batch.
    """
    if not len(texts):
        return np.zeros(0, np.int64)
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]
    # One byte more: an empty text at the end begins there.
    alone = np.append(_ALONE[content], False)
    sizes, counts = np.diff(ends), np.add.reduceat(alone, ends[:-1] - ends[0], dtype=np.int64)
    found: np.ndarray = np.where(sizes, counts, 0) + sizes // _LETTERS
    return found
