"""The model's answers as columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from .columns import UNFIT, answer_column, answer_field
from .exits import BadConfiguration
from .ordering import Sorted
from .parts import BadRow

Answers = list[dict[str, Any]]
_AS_IT_IS = (
    (types.is_floating, (types.is_floating, types.is_integer)),
    (types.is_integer, (types.is_integer,)),
    (types.is_boolean, (types.is_boolean,)),
    (types.is_string, (types.is_string, types.is_large_string)),
)


def schema_of(answers: Answers, names: list[str], said: Mapping[str, pa.Field]) -> pa.Schema:
    """Return the columns of the model's answers: those that `Output` declares, else as the examples show them.

    names: columns that the output has already. Raises BadConfiguration when the answers cannot be columns.
    """
    keys = list(dict.fromkeys(key for answer in answers for key in answer))
    for key in keys:
        if not isinstance(key, str):
            raise BadConfiguration(f"the model's answers have the key {key!r}, which is not text")
        if key in names:
            raise BadConfiguration(f"the output has a column {key!r} already: leave it out of --keep, or rename it")
    if not keys:
        raise BadConfiguration("the model's answers are empty: predict has to return a dict for each text")
    fields = []
    for key in keys:
        try:
            fields.append(said.get(key) or answer_field(key, [one.get(key) for one in answers]))
        except UNFIT as error:
            raise BadConfiguration(f"the model's answers cannot be a column {key!r}: {error}") from None
        if types.is_struct(fields[-1].type) and not fields[-1].type.num_fields:
            raise BadConfiguration(f"the model's answers hold an empty object under {key!r}, which has no columns")
    return pa.schema(fields)


def check_count(answers: Any, count: int) -> None:
    """Raise BadConfiguration unless there is a dict for each text."""
    if not isinstance(answers, list | tuple):
        raise BadConfiguration(
            f"predict gave {type(answers).__name__}: it has to give a list with a dict for each text"
        )
    strange = sorted(kind.__name__ for kind in set(map(type, answers)) if not issubclass(kind, dict))
    if strange:
        raise BadConfiguration(f"predict gave a list with {strange[0]}: it has to give a dict for each text")
    if len(answers) != count:
        raise BadConfiguration(f"predict gave {len(answers)} answers for {count} texts: it has to give one for each")


def to_table(answers: Answers, schema: pa.Schema) -> pa.Table:
    """Return the answers as columns. Raises one of UNFIT when they do not fit."""
    unknown = {key for answer in answers for key in answer} - set(schema.names)
    if unknown:
        raise ValueError(f"the model's answer has the key {min(unknown)!r}, which its first answers did not have")
    return pa.table([answer_column([one.get(field.name) for one in answers], field) for field in schema], schema=schema)


def table_of_columns(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table | None:
    """Return the columns of an answer in the types of a schema, None where values would be changed or are missing."""
    if columns.keys() != set(schema.names):
        return None
    found = []
    for field in schema:
        array = _as_arrow(columns[field.name])
        fits = any(target(field.type) and any(test(array.type) for test in tests) for target, tests in _AS_IT_IS)
        if not fits or array.null_count:
            return None
        try:
            found.append(array.cast(field.type))
        except pa.ArrowInvalid:
            return None
    return pa.table(found, schema=schema)


def _as_arrow(values: Any) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    # NaN is a number in an array of NumPy, and a missing value in what pandas has.
    return pa.array(values, from_pandas=not isinstance(values, np.ndarray))


class Outcome:
    """What the model says of a part: results in the order of the sorted texts, and `bad`: position -> reason."""

    def __init__(self, rows: Sorted, schema: pa.Schema) -> None:
        self.bad: dict[int, str] = {}
        self._rows, self._schema = rows, schema
        self._tables: list[pa.Table] = [schema.empty_table()]

    def add(self, batch: Sequence[int], answers: Answers | pa.Table) -> None:
        """Add the answers for a batch of the sorted texts; those that do not fit the columns are bad rows.

        Raises BadConfiguration when some are missing.
        """
        if isinstance(answers, pa.Table):
            self._tables.append(answers)
            return
        check_count(answers, len(batch))
        self._convert(answers, batch)

    def bad_rows(self) -> list[BadRow]:
        """Return all bad rows of the part, in the order of the input."""
        return self._rows.bad_rows(self.bad)

    def table(self) -> pa.Table:
        """Return the good rows with their results, in the order of the input."""
        return self._rows.in_order_of_input(pa.concat_tables(self._tables), sorted(self.bad))

    def _convert(self, answers: Answers, positions: Sequence[int]) -> None:
        try:
            self._tables.append(to_table(answers, self._schema))
            return
        except UNFIT as error:
            reason = f"the model's answer does not fit: {' '.join(str(error).split())[:300]}"
        if len(answers) == 1:
            self.bad[positions[0]] = reason
            return
        middle = len(answers) // 2
        self._convert(answers[:middle], positions[:middle])
        self._convert(answers[middle:], positions[middle:])
