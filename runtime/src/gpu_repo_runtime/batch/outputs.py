"""What an owner's ``Output`` says of the columns that it makes."""

import datetime
import typing
from enum import Enum
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic_core import to_jsonable_python

from ..tables import bare_type
from .fields import is_class

_TYPES: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    datetime.date: pa.date32(),
    datetime.timedelta: pa.duration("us"),
}
# What Arrow takes as it is; of all others, such as an Enum or a UUID, it gets what JSON has.
_KNOWN = {*_TYPES, datetime.datetime, datetime.time, type(None)}


def said_columns(output: Any) -> dict[str, pa.Field]:
    """Return the columns whose types follow from the fields of an owner's class ``Output``."""
    if not is_class(output):
        return {}
    found = {name: arrow_type(field.annotation) for name, field in output.model_fields.items()}
    return {name: pa.field(name, form) for name, form in found.items() if form is not None}


def arrow_type(annotation: Any) -> pa.DataType | None:
    """Return the type of a column for values of an annotation, None where it follows from the values alone."""
    annotation, _ = bare_type(annotation)
    if annotation in _TYPES:
        return _TYPES[annotation]
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
