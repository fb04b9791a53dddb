"""The model's answers as columns."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from .commontypes import together
from .exits import BadConfiguration
from .ordering import Sorted
from .parts import BadRow
from .values import column
from .widening import UNFIT, field_of, infer, is_empty, without_notes

Answers = list[dict[str, Any]]


def schema_of(answers: Answers, names: list[str], said: Mapping[str, pa.Field]) -> pa.Schema:
    """Return the columns that the model's answers make: the keys, and the types of the values.

    names: columns that the output has already. said: columns of known types. A list of floats becomes a list of
    float32.
    Raises BadConfiguration when the answers cannot be columns.
    """
    keys = list(dict.fromkeys(key for answer in answers for key in answer))
    strange = [key for key in keys if not isinstance(key, str)]
    if strange:
        raise BadConfiguration(f"the model's answers have the key {strange[0]!r}, which is not text")
    taken = sorted(set(keys) & set(names))
    if taken:
        raise BadConfiguration(
            f"the model's answers have the key {taken[0]!r}, which is a column of the output already"
        )
    fields = []
    for key in keys:
        if key in said:
            fields.append(said[key])
            continue
        try:
            form, exact = infer(answer.get(key) for answer in answers)
        except UNFIT as error:
            raise BadConfiguration(f"the model's answers cannot be a column {key!r}: {error}") from None
        if is_empty(form):
            raise BadConfiguration(f"the model's answers hold an empty object under {key!r}, which has no columns")
        fields.append(field_of(key, _column_type(form, key), exact))
    if not fields:
        raise BadConfiguration("the model's answers are empty: predict has to return a dict for each text")
    return pa.schema(fields)


def check_count(answers: Answers, count: int) -> None:
    """Raise BadConfiguration unless there is a dict for each text."""
    if not isinstance(answers, list | tuple):
        raise BadConfiguration(
            f"predict gave {type(answers).__name__}: it has to give a list with a dict for each text"
        )
    strange = set(map(type, answers)) - {dict}
    if strange and not all(issubclass(kind, dict) for kind in strange):
        kind = min(kind.__name__ for kind in strange)
        raise BadConfiguration(f"predict gave a list with {kind}: it has to give a dict for each text")
    if len(answers) != count:
        raise BadConfiguration(f"predict gave {len(answers)} answers for {count} texts: it has to give one for each")


def to_table(answers: Answers, schema: pa.Schema) -> pa.Table:
    """Return the answers as columns of the schema's types or wider ones. Raises one of UNFIT when they do not fit."""
    columns: list[list[Any]] = [[] for _ in schema]
    if not _taken(answers, schema.names, columns):
        unknown = {key for answer in answers for key in answer} - set(schema.names)
        if unknown:
            raise ValueError(f"the model's answer has the key {min(unknown)!r}, which its first answers did not have")
        columns = [[answer.get(name) for answer in answers] for name in schema.names]
    return _arrays(columns, schema)


def _taken(answers: Answers, names: list[str], columns: list[list[Any]]) -> bool:
    """Add the values of each key to its column, or none unless each answer is a dict with just these keys."""
    before = len(columns[0])
    try:
        # Nobody has more keys than these when nobody lacks one of them.
        if sum(map(len, answers)) == len(answers) * len(names):
            for column, name in zip(columns, names, strict=True):
                column.extend(map(itemgetter(name), answers))
            return True
    except (KeyError, TypeError):
        for column in columns:
            del column[before:]
    return False


def _arrays(columns: list[list[Any]], schema: pa.Schema) -> pa.Table:
    arrays = [column(values, field) for values, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, names=schema.names)


class Outcome:
    """What the model says of a part: results in the order of the sorted texts, and `bad`: position -> reason."""

    def __init__(self, rows: Sorted, schema: pa.Schema) -> None:
        self.bad: dict[int, str] = {}
        self._rows = rows
        self._schema = schema
        self._names = schema.names
        self._tables: list[pa.Table] = []
        self._positions: list[Sequence[int]] = []
        # The values of each key. The model's dicts go away at once: to fill fresh memory with them slows the model.
        self._values: list[list[Any]] = [[] for _ in schema]
        # Many values at once are converted faster. But lists of numbers take ten times the memory until they are, and
        # the model may fill the same array anew for its next batch.
        self._enough = 1 if any(pa.types.is_nested(form) for form in schema.types) else 4096

    def add(self, batch: Sequence[int], answers: Answers) -> None:
        """Take the answers for a batch of the sorted texts. Raises BadConfiguration when some are missing."""
        check_count(answers, len(batch))
        if not _taken(answers, self._names, self._values):
            self.convert()
            self._convert(answers, batch)
            return
        self._positions.append(batch)
        if len(self._values[0]) >= self._enough:
            self.convert()

    def convert(self) -> None:
        """Make columns of the answers; those that do not fit are bad rows."""
        values, positions = self._values, self._positions
        self._values, self._positions = [[] for _ in self._schema], []
        try:
            self._tables.append(_arrays(values, self._schema))
        except UNFIT:
            answers = [dict(zip(self._names, row, strict=True)) for row in zip(*values, strict=True)]
            self._convert(answers, [position for some in positions for position in some])

    def bad_rows(self) -> list[BadRow]:
        """Return all bad rows of the part, in the order of the input."""
        return self._rows.bad_rows(self.bad)

    def table(self) -> pa.Table:
        """Return the good rows with their results, in the order of the input."""
        results = together(self._tables, without_notes(self._schema))
        return self._rows.in_order_of_input(results, sorted(self.bad))

    def _convert(self, answers: Answers, positions: Sequence[int]) -> None:
        """Make columns of some answers, of halves of them where they do not fit."""
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


def _column_type(form: pa.DataType, key: str) -> pa.DataType:
    if pa.types.is_list(form) and pa.types.is_floating(form.value_type):
        return pa.list_(pa.float32())
    if pa.types.is_null(form):
        raise BadConfiguration(
            f"the model's answers hold nothing under {key!r}: the type of the column cannot be known"
        )
    return form
