"""Tables as an owner's model takes them: the type that the annotation of ``predict`` names, and its columns.

::

    def predict(self, batch: pd.DataFrame) -> pd.DataFrame: ...
    def predict(self, batch: pa.Table) -> pa.Table: ...
    def predict(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]: ...

The columns are the fields of the owner's ``Input``. A column has the same dtype in every batch, whatever its values.
"""

import datetime
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from .contract import ContractError

if TYPE_CHECKING:
    import pyarrow as pa

# The types of columns, and the dtypes that NumPy has for them; `object` holds texts and lists as Python has them.
DTYPES = {float: "float64", int: "int64", bool: "bool", datetime.datetime: "datetime64[us]"}
OBJECTS = (str, bytes, datetime.date)
# What pandas has for whole numbers and booleans of which some may be missing.
WITH_NULLS = {int: "Int64", bool: "boolean"}


class Kind(Enum):
    """The three types of a table."""

    PANDAS = "pandas.DataFrame"
    ARROW = "pyarrow.Table"
    NUMPY = "dict[str, numpy.ndarray]"


@dataclass(frozen=True)
class Column:
    """A field of ``Input``: values of a ``type``, or lists of it if ``many``; None among them if ``optional``."""

    name: str
    type: type
    optional: bool
    many: bool = False


def kind_of(annotation: Any) -> Kind | None:
    """Return the type of table that an annotation names, None for any other type. Imports nothing."""
    if typing.get_origin(annotation) is dict:
        key, item = typing.get_args(annotation)
        item = typing.get_origin(item) or item
        return Kind.NUMPY if key is str and _is_called(item, "numpy", "ndarray") else None
    if _is_called(annotation, "pandas", "DataFrame"):
        return Kind.PANDAS
    return Kind.ARROW if _is_called(annotation, "pyarrow", "Table") else None


def _is_called(found: Any, package: str, name: str) -> bool:
    return getattr(found, "__module__", "").partition(".")[0] == package and getattr(found, "__name__", "") == name


class TableInput:
    """Makes the tables that ``predict`` takes. Raises ContractError when a field of ``Input`` is not a column."""

    def __init__(self, kind: Kind, input_type: Any, file: str) -> None:
        if not (isinstance(input_type, type) and issubclass(input_type, BaseModel)):
            raise ContractError(
                f"{file}: predict takes a {kind.value}: write class Input(BaseModel) with a field for each column"
            )
        self.kind = kind
        self.columns = tuple(
            _column(name, field.annotation, kind, file) for name, field in input_type.model_fields.items()
        )

    def of_records(self, records: Sequence[Any]) -> Any:
        """Return objects of ``Input`` as a table."""
        return self._made({one.name: [getattr(record, one.name) for record in records] for one in self.columns})

    def of_arrow(self, table: "pa.Table") -> Any:
        """Return a table whose columns are the fields of ``Input``, in types that hold their values."""
        if self.kind is Kind.ARROW:
            return table
        return self._made({one.name: _from_arrow(table[one.name], one) for one in self.columns})

    def _made(self, values: dict[str, Any]) -> Any:
        if self.kind is Kind.ARROW:
            import pyarrow as pa

            return pa.table({one.name: pa.array(values[one.name], arrow_type(one)) for one in self.columns})
        if self.kind is Kind.NUMPY:
            return {one.name: _numpy(values[one.name], one) for one in self.columns}
        import pandas as pd

        return pd.DataFrame({one.name: _pandas(values[one.name], one) for one in self.columns}, copy=False)


def _column(name: str, annotation: Any, kind: Kind, file: str) -> Column:
    bare, optional = bare_type(annotation)
    many = typing.get_origin(bare) is list
    item = bare_type(typing.get_args(bare)[0])[0] if many else bare
    if typing.get_origin(item) is typing.Literal:
        kinds = {type(value) for value in typing.get_args(item)}
        item = kinds.pop() if len(kinds) == 1 else item
    if item not in DTYPES and item not in OBJECTS:
        raise ContractError(
            f"{file}: Input.{name} is {annotation}, which is not a column of a table: expected float, int, bool, str, "
            "bytes, date, datetime or a list of them; write def predict(self, batch: list[Input]) for other types"
        )
    if kind is Kind.NUMPY and optional and not many and item in WITH_NULLS:
        raise ContractError(
            f"{file}: Input.{name} may be None, and a NumPy array of {item.__name__} has no null: write float | None, "
            "or take a pandas.DataFrame"
        )
    return Column(name, item, optional, many)


def bare_type(annotation: Any) -> tuple[Any, bool]:
    """Return a type without its notes and without None, and whether None was one of its alternatives."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (typing.Union, UnionType):
        others = [one for one in typing.get_args(annotation) if one is not NoneType]
        if len(others) == 1:
            return bare_type(others[0])[0], True
    return annotation, False


def arrow_type(column: Column) -> "pa.DataType":
    """Return the type of pyarrow for a column."""
    import pyarrow as pa

    form = {
        float: pa.float64(),
        int: pa.int64(),
        bool: pa.bool_(),
        str: pa.string(),
        bytes: pa.binary(),
        datetime.date: pa.date32(),
        datetime.datetime: pa.timestamp("us"),
    }[column.type]
    return pa.list_(form) if column.many else form


def _from_arrow(values: Any, column: Column) -> Any:
    """Return a column of pyarrow as NumPy has it without a copy, or else as a list."""
    is_plain = column.type in DTYPES and not column.many and not (column.type in WITH_NULLS and values.null_count)
    return values.to_numpy() if is_plain else values.to_pylist()


def _numpy(values: Any, column: Column) -> Any:
    import numpy as np

    if column.type in DTYPES and not column.many:
        return np.asarray(values, DTYPES[column.type])
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _pandas(values: Any, column: Column) -> Any:
    import pandas as pd

    if column.optional and column.type in WITH_NULLS and not column.many:
        return pd.array(values, dtype=WITH_NULLS[column.type])
    if column.type is str and not column.many:
        return pd.array(values, dtype="str") if pd.__version__ >= "3" else _numpy(values, column)
    return _numpy(values, column)


def answer_columns(answer: Any, rows: int) -> dict[str, Any]:
    """Return the columns of a table that a model has returned, each a list, an array of NumPy or one of pyarrow.

    Raises TypeError when it is not a table, ValueError when it has not one row for each of the ``rows`` inputs.
    """
    if _is_called(type(answer), "pyarrow", "Table"):
        columns = dict(zip(answer.column_names, answer.columns, strict=True))
    elif _is_called(type(answer), "pandas", "DataFrame"):
        columns = {name: _unwrapped(answer[name]) for name in answer.columns}
    elif isinstance(answer, dict):
        columns = {name: _unwrapped(values) for name, values in answer.items()}
    else:
        raise TypeError(f"predict returned {type(answer).__name__}, no table like DataFrame({{'price': prices}})")
    for name, values in columns.items():
        if not hasattr(values, "__len__"):
            raise TypeError(f"predict returned {type(values).__name__} in column {name!r}: expected an array")
        if len(values) != rows:
            raise ValueError(f"predict returned {len(values)} values in column {name!r} for {rows} inputs")
    return columns


def _unwrapped(values: Any) -> Any:
    """Return a Series as an array. Raises ValueError for rows in another order, as a concat of groups leaves them."""
    if not _is_called(type(values), "pandas", "Series"):
        return values
    if not values.index.is_monotonic_increasing and set(values.index) == set(range(len(values))):
        raise ValueError("predict returned the rows in another order: end it with .sort_index()")
    is_plain = type(values.dtype).__module__.startswith("numpy") and values.dtype.kind in "iufb"
    return values.to_numpy() if is_plain else values.array


def answer_values(answer: Any, rows: int, of_objects: bool) -> list[Any]:
    """Return what a model has returned as a value for each row: a dict of the columns if Output is ``of_objects``.

    A list is returned as it is. Raises as answer_columns does.
    """
    if isinstance(answer, list | tuple):
        return list(answer)
    if not of_objects and hasattr(answer, "tolist"):
        return to_python(_unwrapped(answer))
    columns = {name: to_python(values) for name, values in answer_columns(answer, rows).items()}
    if not of_objects and len(columns) == 1:
        return next(iter(columns.values()))
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def to_python(values: Any) -> list[Any]:
    """Return a column as a list, with None for what pandas or pyarrow has no value for; NaN stays NaN in numbers."""
    convert: Callable[[], list[Any]] | None = getattr(values, "to_pylist", None) or getattr(values, "tolist", None)
    found = convert() if convert else list(values)
    if not hasattr(values, "isna"):
        return found
    is_number = getattr(values.dtype, "kind", "") == "f"
    pairs = zip(found, values.isna(), strict=True)
    return [None if is_missing and not (is_number and isinstance(one, float)) else one for one, is_missing in pairs]
