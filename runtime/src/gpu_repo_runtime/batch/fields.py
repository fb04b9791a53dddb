"""Which columns of the input make an owner's ``Input``: those of the fields of a class, or the columns of one value."""

from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence
from dataclasses import is_dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, RootModel

from ..owntypes import read_name, shown
from .columns import Field, InputColumns, listed
from .exits import BadConfiguration

UNIONS = (Union, UnionType)
SCALARS = {Literal, bool, int, float, Decimal, date, datetime, time, timedelta}


def fields_of(input_type: Any) -> list[Field]:
    """Return the fields of ``Input``; none where only a line of JSON is one: a dict, or one of several classes."""
    if is_class(input_type) and not is_class(input_type, RootModel):
        own = input_type.model_fields if input_type.model_config.get("extra") != "allow" else {}
        return [
            _field(read_name(input_type, name), info.annotation, bool(info.metadata), info.is_required(), name)
            for name, info in own.items()
        ]
    if any(is_class(one, BaseModel | Mapping) or is_dataclass(one) for one in _alternatives(input_type)):
        return []
    return [_field("", input_type)]


def is_class(found: Any, base: Any = BaseModel) -> bool:
    """Tell whether something is a class of pydantic, or of another base."""
    return isinstance(found, type) and issubclass(found, base)


def _field(key: str, annotation: Any, is_limited: bool = False, required: bool = True, name: str = "") -> Field:
    kind, nullable = _kind(annotation), not {NoneType, Any}.isdisjoint(_alternatives(annotation))
    if kind == "text" and (is_limited or nullable):
        kind = "other"  # an empty cell is null, and no value of a text with a pattern or a length
    return Field(key, kind, required, nullable, name=name)


def _kind(annotation: Any) -> str:
    types = set(_alternatives(annotation)) - {NoneType}
    if bytes in types:
        return "bytes"
    # A text with a note, which may be a pattern, is none of these.
    if str in (get_args(annotation) if get_origin(annotation) in UNIONS else (annotation,)):
        return "text"
    if any(is_dataclass(one) or (is_class(one, BaseModel | Collection) and not is_class(one, str)) for one in types):
        return "nested"
    return "scalar" if types <= SCALARS else "other"


def _alternatives(annotation: Any) -> list[Any]:
    """Return the types of which a value has one, without notes and types of items."""
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in UNIONS:
        return [one for option in get_args(annotation) for one in _alternatives(option)]
    return [get_origin(annotation) or annotation]


def input_columns(
    input_type: Any, names: Sequence[str] | None, kept: Sequence[str], asked: Namespace, is_json: bool
) -> InputColumns:
    """Return the columns that make an input, of a table whose columns have these names.

    names: None where there are no objects, or no file can be read. asked: the options columns, files and root.
    is_json: all files are JSON Lines, whose rows may lack an optional key. Raises BadConfiguration.
    """
    fields, what, chosen = fields_of(input_type), shown(input_type), asked.columns
    if not fields or (names is None and is_json and not fields[0].key):
        if chosen or kept or asked.files or not is_json:
            how = "use JSON Lines without --columns, --keep and --files, or write class Input(BaseModel) with fields"
            raise BadConfiguration(f"Input is {what}, which is not made of columns: {how}")
        return InputColumns()
    there = [*names] if names is not None else [field.key for field in fields if field.key]
    there += [one.key for one in fields if is_json and not one.required and not {one.key, one.name} & {*there}]
    if fields[0].key:
        fields = _of_class(fields, there, chosen, what, is_json)
    else:
        fields = _of_value(input_type, there, chosen, what)
    for field in fields if names is not None else ():
        _check(field, there)
    columns = {field.key: field.column for field in fields}
    strange = [name for name in asked.files if name not in columns and name not in columns.values()]
    if strange:
        raise BadConfiguration(f"--files {strange[0]}: that is not a column of an input; there are {listed(columns)}")
    files = (field.column for field in fields if {field.key, field.column} & {*asked.files})
    return InputColumns(tuple(fields), frozenset(files), asked.root)


def _of_value(input_type: Any, names: Sequence[str], chosen: Sequence[str], what: str) -> list[Field]:
    items = _items(input_type)
    if not chosen and len(names) != 1:
        how = "choose one with --columns" + (", or several in the order of the items" if items else "")
        raise BadConfiguration(f"Input is {what}, and the input has {len(names)} columns: {how}; {listed(names)}")
    if len(chosen) > 1 and not items:
        raise BadConfiguration(f"Input is {what}, which is one column; --columns names {', '.join(chosen)}")
    form = Union[items] if len(chosen) > 1 else input_type  # noqa: UP007
    return [replace(_field("", form), column=column) for column in chosen or names]


def _items(annotation: Any) -> tuple[Any, ...]:
    """Return the types of the items of a list or tuple."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    is_list = get_origin(annotation) in (list, tuple, Sequence)
    return tuple(one for one in get_args(annotation) if one is not ...) if is_list else ()


def _of_class(
    fields: Sequence[Field], names: Sequence[str], chosen: Sequence[str], what: str, is_json: bool
) -> list[Field]:
    renamed = {key: column or key for key, _, column in (word.partition("=") for word in chosen)}
    keys = [field.key for field in fields]
    if unknown := [key for key in renamed if key not in keys]:
        raise BadConfiguration(f"--columns {unknown[0]}: {what} has no such field; it has {listed(keys)}")
    for one in fields if not is_json else ():
        if one.key not in renamed and one.key != one.name and {one.key, one.name} <= {*names}:
            raise BadConfiguration(f"columns {one.key!r} and {one.name!r} are one field of {what}: rename one")
    usual = {one.key: one.name if one.name in names and one.key not in names else one.key for one in fields}
    found = [replace(one, column=(usual | renamed)[one.key]) for one in fields]
    found = [one for one in found if one.column in names or one.key in renamed or one.required]
    if not found:
        raise BadConfiguration(f"no field of {what} ({listed(keys)}) is a column of the input ({listed(names)})")
    return found


def _check(field: Field, names: Sequence[str]) -> None:
    column = field.column
    check_single(names, column)
    if column not in names:
        which = f"; rename another one with --columns '{field.key}=COLUMN'" if field.key == column else ""
        what = f"field {field.key!r} of Input" if field.key else "Input"
        raise BadConfiguration(
            f"{what} needs a column {column!r}, and the input has none{which}; its columns: {listed(names)}"
        )


def check_single(names: Sequence[str], name: str) -> None:
    """Raise BadConfiguration for the name of several columns."""
    if names.count(name) > 1:
        raise BadConfiguration(f"the input has {names.count(name)} columns {name!r}: which one is meant?")
