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


def is_plain(annotation: Any) -> bool:
    """Tell whether Arrow has columns for all that values of an annotation are made of."""
    annotation, _ = bare_type(annotation)
    if is_class(annotation):
        return all(is_plain(field.annotation) for field in annotation.model_fields.values())
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is Literal:
        return True
    return all(is_plain(a) for a in arguments if a is not ...) if arguments else annotation in _KNOWN


def native(value: Any) -> Any:
    """Return a value as Arrow takes it: of what it has no type for, such as a UUID, what JSON has of it."""
    if type(value) in _KNOWN or isinstance(value, np.ndarray | np.generic | set | frozenset):
        return value
    if isinstance(value, dict):
        return {key if type(key) is str else _key(key): native(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return list(map(native, value))
    return native(value.value) if isinstance(value, Enum) else to_jsonable_python(value)


def _key(key: Any) -> str:
    [found] = to_jsonable_python({key: None})
    return str(found)
