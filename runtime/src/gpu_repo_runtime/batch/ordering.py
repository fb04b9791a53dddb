"""The rows of a part sorted by length, so that little of a batch is padding, and back in the order of the input."""

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from .estimates import estimate
from .parts import ROW, TEXT, BadRow, Part
from .shapes import Taken


@dataclass
class Sorted:
    """A part whose texts are sorted: `texts[i]`, as long as `lengths[i]`, is the good row `order[i]` of the part.

    texts: for a model of another input a column of what its inputs are made of.
    """

    part: Part
    texts: list[str] | pa.Array
    lengths: np.ndarray
    order: np.ndarray

    @classmethod
    def of(cls, part: Part, typed: Taken | None = None) -> "Sorted":
        """Return the part with its longest texts first: if memory does not suffice it shows at once."""
        texts = part.table[TEXT].combine_chunks()
        lengths = _lengths(texts, typed) if typed else estimate(texts)
        # Stable, so that each run makes the same batches.
        order = np.argsort(-lengths, kind="stable")
        in_order = texts.take(pa.array(order))
        return cls(part, in_order if typed else _as_list(in_order), lengths[order], order)

    def by(self, lengths: np.ndarray) -> "Sorted":
        """Return the part sorted by other lengths of its texts, which are in the order of `texts`."""
        again = np.argsort(-lengths, kind="stable")
        texts = self.texts
        in_order = [texts[i] for i in again] if isinstance(texts, list) else texts.take(pa.array(again))
        return Sorted(self.part, in_order, lengths[again], self.order[again])

    def bad_rows(self, reasons: dict[int, str]) -> list[BadRow]:
        """Return the bad rows of the part, from reading it and from `reasons`: position in `texts` -> why."""
        table = self.part.table.select([ROW, TEXT]).take(pa.array(self.order[list(reasons)], pa.int64()))
        rows = zip(table[ROW].to_pylist(), table[TEXT], reasons.values(), strict=True)
        unfit = [BadRow(row, reason, raw=_raw(value)) for row, value, reason in rows]
        return sorted(self.part.bad + unfit, key=lambda bad: bad.row)

    def in_order_of_input(self, results: pa.Table, failed: list[int]) -> pa.Table:
        """Return the good rows with their results beside them.

        results: those of all texts but the positions `failed`, in the order of `texts`. The text for the model is left
        out; the kept columns and the row's number stay.
        """
        good = np.delete(self.order, failed) if failed else self.order
        back = np.argsort(good, kind="stable")
        table = self.part.table.drop_columns([TEXT])
        if failed:
            table = table.take(pa.array(good[back]))
        for field, column in zip(results.schema, results.take(pa.array(back)).columns, strict=True):
            table = table.append_column(field, column)
        return table


def _raw(value: pa.Scalar) -> bytes | None:
    """Return what went to the model: a text or a line as it is, columns as JSON; None for what JSON does not have."""
    try:
        found = value.as_py()
        return (found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=str)).encode()
    except (ValueError, TypeError, OverflowError):
        return None


def _as_list(texts: pa.StringArray) -> list[str]:
    found: list[str] = texts.to_numpy(zero_copy_only=False).tolist()
    return found


def _lengths(values: pa.Array, typed: Taken) -> np.ndarray:
    """Return (values,) int64: about how long the texts of inputs are; zeros where they have none."""
    if pa.types.is_string(values.type):
        return estimate(values)
    fields = [field.name for field in values.type if pa.types.is_string(field.type) and field.name not in typed.files]
    lengths = [estimate(values.field(name).fill_null("")) for name in fields]
    return sum(lengths, np.zeros(len(values), np.int64))
