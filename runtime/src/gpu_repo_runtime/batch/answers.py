"""The model's answers as columns, of the types that ``Output`` declares or that the examples show."""

import datetime
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyarrow import types
from pydantic_core import to_jsonable_python

from ..owntypes import is_class
from ..tables import bare_type
from .columns import PYTHON_TYPES, UNFIT, exact
from .exits import BadConfiguration
from .ordering import Sorted

Answers = list[dict[str, Any]]
_AS_IT_IS = (
    (types.is_floating, (types.is_floating, types.is_integer)),
    (types.is_integer, (types.is_integer,)),
    (types.is_boolean, (types.is_boolean,)),
    (types.is_string, (types.is_string, types.is_large_string)),
)
# What Arrow takes as it is; of all others, such as an Enum or a UUID, it gets what JSON has.
_KNOWN = {*PYTHON_TYPES, datetime.datetime, datetime.time, type(None)}


def said_columns(output: Any) -> dict[str, pa.Field]:
    """Return the columns whose types follow from the fields of an owner's class ``Output``."""
    if not is_class(output):
        return {}
    found = {name: arrow_type(field.annotation) for name, field in output.model_fields.items()}
    return {name: pa.field(name, form) for name, form in found.items() if form is not None}


def arrow_type(annotation: Any) -> pa.DataType | None:
    """Return the type of a column for values of an annotation, None where it follows from the values alone."""
    annotation, _ = bare_type(annotation)
    if annotation in PYTHON_TYPES:
        return PYTHON_TYPES[annotation]
    if typing.get_origin(annotation) is Literal and all(isinstance(v, str) for v in typing.get_args(annotation)):
        return pa.string()
    if typing.get_origin(annotation) is dict and typing.get_args(annotation)[0] is str:
        # Keys that are data: columns of an object would add to each one the keys of all others.
        value = arrow_type(typing.get_args(annotation)[1])
        return None if value is None else pa.map_(pa.string(), value)
    if typing.get_origin(annotation) is list:
        item = arrow_type(typing.get_args(annotation)[0])
        return None if item is None else pa.list_(pa.float32() if item == pa.float64() else item)
    if is_class(annotation) and annotation.model_config.get("extra") != "allow":
        fields = {name: arrow_type(field.annotation) for name, field in annotation.model_fields.items()}
        if fields and None not in fields.values() and not annotation.model_computed_fields:
            return pa.struct(list(fields.items()))
    return None


def plain(value: Any) -> Any:
    """Return a value as Arrow takes it: NumPy's as lists and numbers; of what it has no type for, what JSON has.

    Raises TypeError for a set, which has no order.
    """
    if type(value) in _KNOWN:
        return value
    if isinstance(value, set | frozenset):
        raise TypeError("a set has no order: return a sorted list")
    if isinstance(value, dict):
        return {key if type(key) is str else _key(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(plain, value))
    if isinstance(value, memoryview):
        return bytes(value)
    if getattr(getattr(value, "dtype", None), "kind", "") == "M":
        exact = value.astype("datetime64[us]")
        if not np.all((exact == value) | np.isnat(value)):
            raise ValueError("a time with parts of a microsecond")
        value = exact
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Enum):
        return plain(value.value)
    return value if isinstance(value, tuple(_KNOWN)) else to_jsonable_python(value)


def _key(key: Any) -> str:
    [found] = to_jsonable_python({key: None})
    return str(found)


def schema_of(answers: Answers, names: list[str], said: Mapping[str, pa.Field]) -> pa.Schema:
    """Return the columns of the model's answers: those that `Output` declares, else as the examples show them.

    names: columns that the output has already. Raises BadConfiguration when the answers cannot be columns.
    """
    keys = list(dict.fromkeys(key for answer in answers for key in answer))
    for key in keys:
        if key in names:
            raise BadConfiguration(
                f"the model's answers and --keep both have a column {key!r}: rename the field, or omit it from --keep"
            )
    if not keys:
        raise BadConfiguration("the model's answers are empty: predict has to return a dict for each input")
    fields = []
    for key in keys:
        try:
            fields.append(said.get(key) or answer_field(key, [one.get(key) for one in answers]))
        except UNFIT as error:
            raise BadConfiguration(f"the model's answers cannot be a column {key!r}: {error}") from None
        if types.is_struct(fields[-1].type) and not fields[-1].type.num_fields:
            raise BadConfiguration(f"the model's answers hold an empty object under {key!r}, which has no columns")
    return pa.schema(fields)


def to_table(answers: Answers, schema: pa.Schema) -> pa.Table:
    """Return the answers as columns. Raises one of UNFIT when they do not fit."""
    if unknown := set[str]().union(*answers) - set(schema.names):
        raise ValueError(f"the model's answer has the key {min(unknown)!r}, which its first answers did not have")
    columns = [[one.get(name) for one in answers] for name in schema.names]
    return pa.table(list(map(answer_column, columns, schema)), schema=schema)


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


def answer_field(name: str, values: Sequence[Any]) -> pa.Field:
    """Return the column of answers whose type is not declared, as the examples show it. Raises one of UNFIT."""
    form = pa.array(list(map(plain, values))).type
    if types.is_null(form):
        raise TypeError(f"the answers contain only None under {name!r}: the type of the column is unknown")
    if types.is_list(form) and types.is_floating(form.value_type):
        form = pa.list_(pa.float32())
    return pa.field(name, form)


def answer_column(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """Return answers as a column. Raises one of UNFIT when one of them would be changed."""
    if types.is_list(field.type) and types.is_floating(field.type.value_type):
        # Vectors, of which there may be many numbers.
        found = pa.array(values, field.type)
        truths = any({bool, np.bool_} & set(map(type, one)) for one in values if isinstance(one, list | tuple))
        if not truths and not np.isinf(found.flatten().to_numpy(zero_copy_only=False)).any():
            return found
    return exact(list(map(plain, values)), field.type)


class Outcome:
    """What the model says of `rows`: tables in the order of the sorted texts, and `bad`: position -> reason."""

    def __init__(self, rows: Sorted, schema: pa.Schema) -> None:
        self.rows, self.bad, self.tables = rows, dict[int, str](), [schema.empty_table()]

    def table(self) -> pa.Table:
        """Return the results of all texts but the bad ones."""
        return pa.concat_tables(self.tables)
