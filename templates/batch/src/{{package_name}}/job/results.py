"""The model's answers as columns."""

from typing import Any

import pyarrow as pa

from .exits import BadConfiguration

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


def to_batch(answers: Answers, count: int, schema: pa.Schema) -> pa.RecordBatch:
    """Return the answers as columns. Raises ValueError or an ArrowException when they do not fit the schema."""
    if len(answers) != count:
        raise BadConfiguration(f"predict gave {len(answers)} answers for {count} texts: it has to give one for each")
    unknown = {key for answer in answers for key in answer} - set(schema.names)
    if unknown:
        raise ValueError(f"the model's answer has the key {min(unknown)!r}, which its first answers did not have")
    columns = [
        pa.array([answer.get(name) for answer in answers], form)
        for name, form in zip(schema.names, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


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
