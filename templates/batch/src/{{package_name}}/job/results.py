"""The model's answers as columns."""

from operator import itemgetter
from typing import Any

import pyarrow as pa

from .exits import BadConfiguration
from .ordering import Sorted
from .parts import BadRow

Answers = list[dict[str, Any]]


def schema_of(answers: Answers, names: list[str]) -> pa.Schema:
    """Return the columns that the model's answers make: the keys, and the types of the values.

    names: columns that the output has already. A list of floats becomes a list of float32.
    Raises BadConfiguration when the answers cannot be columns.
    """
    keys = list(dict.fromkeys(key for answer in answers for key in answer))
    taken = sorted(set(keys) & set(names))
    if taken:
        raise BadConfiguration(
            f"the model's answers have the key {taken[0]!r}, which is a column of the output already"
        )
    fields = []
    for key in keys:
        values = [_plain(answer.get(key)) for answer in answers]
        try:
            form = pa.array(values).type
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise BadConfiguration(f"the model's answers cannot be a column {key!r}: {error}") from None
        fields.append(pa.field(key, _column_type(form, key)))
    if not fields:
        raise BadConfiguration("the model's answers are empty: predict has to return a dict for each text")
    return pa.schema(fields)


def check_count(answers: Answers, count: int) -> None:
    """Raise BadConfiguration unless there is an answer for each text."""
    if len(answers) != count:
        raise BadConfiguration(f"predict gave {len(answers)} answers for {count} texts: it has to give one for each")


def to_batch(answers: Answers, schema: pa.Schema) -> pa.RecordBatch:
    """Return the answers as columns. Raises ValueError or an ArrowException when they do not fit the schema."""
    names = schema.names
    columns = _columns(answers, names)
    if columns is None:
        unknown = {key for answer in answers for key in answer} - set(names)
        if unknown:
            raise ValueError(f"the model's answer has the key {min(unknown)!r}, which its first answers did not have")
        columns = [[answer.get(name) for answer in answers] for name in names]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _columns(answers: Answers, names: list[str]) -> list[list[Any]] | None:
    """Return the values of each key, or None unless each answer has just these keys."""
    if set(map(len, answers)) != {len(names)}:
        return None
    try:
        return [list(map(itemgetter(name), answers)) for name in names]
    except KeyError:
        return None


class Outcome:
    """What the model says of a part: results in the order of the sorted texts, and `bad`: position -> reason."""

    def __init__(self, rows: Sorted, schema: pa.Schema) -> None:
        self.bad: dict[int, str] = {}
        self._rows = rows
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._answers: Answers = []
        self._positions: list[range] = []
        # Many answers at once are converted faster, but lists of numbers take ten times the memory until they are.
        self._enough = 64 if any(pa.types.is_list(form) for form in schema.types) else 4096

    def add(self, position: int, answers: Answers, count: int) -> None:
        """Take the answers for `count` texts from `position` on. Raises BadConfiguration when some are missing."""
        check_count(answers, count)
        self._answers += answers
        self._positions.append(range(position, position + count))
        if len(self._answers) >= self._enough:
            self.convert()

    def convert(self) -> None:
        """Make columns of the answers; those that do not fit are bad rows."""
        answers, positions = self._answers, [p for some in self._positions for p in some]
        self._answers, self._positions = [], []
        self._convert(answers, positions)

    def bad_rows(self) -> list[BadRow]:
        """Return all bad rows of the part, in the order of the input."""
        return self._rows.bad_rows(self.bad)

    def table(self) -> pa.Table:
        """Return the good rows with their results, in the order of the input."""
        results = pa.Table.from_batches(self._batches, self._schema)
        return self._rows.in_order_of_input(results, sorted(self.bad))

    def _convert(self, answers: Answers, positions: list[int]) -> None:
        if not answers:
            return
        try:
            self._batches.append(to_batch(answers, self._schema))
            return
        except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
            reason = f"the model's answer does not fit: {' '.join(str(error).split())[:300]}"
        if len(answers) == 1:
            self.bad[positions[0]] = reason
            return
        middle = len(answers) // 2
        self._convert(answers[:middle], positions[:middle])
        self._convert(answers[middle:], positions[middle:])


def _plain(value: Any) -> Any:
    """Return arrays and scalars of NumPy as lists and numbers of Python."""
    return value.tolist() if hasattr(value, "tolist") else value


def _column_type(form: pa.DataType, key: str) -> pa.DataType:
    if pa.types.is_list(form) and pa.types.is_floating(form.value_type):
        return pa.list_(pa.float32())
    if pa.types.is_null(form):
        raise BadConfiguration(
            f"the model's answers hold nothing under {key!r}: the type of the column cannot be known"
        )
    return form
