"""The rows of a part sorted by length, so that little of a batch is padding, and back in the order of the input."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .fields import InputColumns
from .parquet import as_json
from .parts import FILE, INPUT, ROW, BadRow, Part

# About what a tokenizer makes one token of: some letters of a word, a sign, a digit, a character of another script.
_TOKEN = r"\p{Latin}{1,8}|[^\p{Latin}\s]"


@dataclass
class Sorted:
    """A part whose texts are sorted: text i, of length `lengths[i]`, is the good row `order[i]` of the part.

    is_text: the model takes texts, and not inputs that are made of columns or of lines of JSON.
    """

    part: Part
    lengths: np.ndarray
    order: np.ndarray
    is_text: bool = True

    @classmethod
    def of(cls, part: Part, typed: InputColumns | None = None) -> "Sorted":
        """Return the part with its longest texts first: if memory does not suffice it shows at once."""
        inputs = part.inputs
        lengths = _lengths(inputs, typed) if typed else estimate(inputs)
        order = np.argsort(-lengths, kind="stable")  # stable, so that each run makes the same batches
        return cls(part, lengths[order], order, is_text=typed is None)

    def some(self, begin: int, end: int) -> list[str] | pa.Array:
        """Return the texts from one place in their order to another, or what the inputs there are made of."""
        places = self.order[begin:end]
        if len(places) and places[-1] - places[0] == len(places) - 1 and np.all(np.diff(places) == 1):
            found = self.part.inputs.slice(places[0], len(places))
        else:
            found = self.part.inputs.take(pa.array(places))
        return list(found.to_numpy(zero_copy_only=False)) if self.is_text else found

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


def _lengths(values: pa.Array, typed: InputColumns) -> np.ndarray:
    """Return (values,) int64: about how long the texts and lists of inputs are; zeros where they have none."""
    if pa.types.is_string(values.type):
        return estimate(values)
    texts = {field.column for field in typed.fields if field.kind in ("text", "nested", "other")}
    fields = [field.name for field in values.type if pa.types.is_string(field.type) and field.name in texts]
    lengths = [estimate(values.field(name).fill_null("")) for name in fields]
    lists = [pc.list_value_length(values.field(one.name)) for one in values.type if pa.types.is_list(one.type)]
    return sum([*lengths, *(one.fill_null(0).to_numpy() for one in lists)], np.zeros(len(values), np.int64))


def estimate(texts: pa.StringArray) -> np.ndarray:
    """Return (texts,) int64: about how long texts are, in proportion to their tokens and not to their bytes.

    A text that is thought too long pads itself, one that is thought too short pads all others of its batch.
    """
    found: np.ndarray = pc.count_substring_regex(texts, _TOKEN).to_numpy().astype(np.int64)
    return found
