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
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any

from .contract import ContractError
from .owntypes import is_class

if TYPE_CHECKING:
    import pyarrow as pa

# The three types of a table.
PANDAS, ARROW, NUMPY = "pandas.DataFrame", "pyarrow.Table", "dict[str, numpy.ndarray]"
# The types of columns: NumPy's dtype, where `object` has values as Python has them, and the type of pyarrow.
TYPES = {
    float: ("float64", "float64"),
    int: ("int64", "int64"),
    bool: ("bool", "bool"),
    datetime.datetime: ("datetime64[us]", "timestamp[us]"),
    datetime.date: ("object", "date32"),
    str: ("object", "string"),
    bytes: ("object", "binary"),
}
# pandas' own dtypes: of texts, and of whole numbers and booleans of which some may be missing.
TEXT, NULLABLE = "str", {int: "Int64", bool: "boolean"}
OWN = {TEXT, *NULLABLE.values()}


@dataclass(frozen=True)
class Column:
    """A field of ``Input``: values of a ``type``, or lists of it if ``many``; None among them if ``optional``."""

    name: str
    type: type
    optional: bool
    many: bool = False


def kind_of(annotation: Any) -> str | None:
    """Return the type of table that an annotation names, None for any other type. Imports nothing."""
    if typing.get_origin(annotation) is dict:
        key, item = typing.get_args(annotation)
        return NUMPY if key is str and _name_of(typing.get_origin(item) or item) == "numpy.ndarray" else None
    return next((kind for kind in (PANDAS, ARROW) if kind == _name_of(annotation)), None)


def _name_of(found: Any) -> str:
    return f"{getattr(found, '__module__', '').partition('.')[0]}.{getattr(found, '__name__', '')}"


class TableInput:
    """Makes the tables that ``predict`` takes. Raises ContractError when a field of ``Input`` is not a column."""

    def __init__(self, kind: str, input_type: Any, file: str) -> None:
        if not is_class(input_type):
            raise ContractError(
                f"{file}: predict takes a {kind}: write class Input(BaseModel) with a field for each column"
            )
        self.kind = kind
        self.columns = tuple(_column(name, field.annotation, file) for name, field in input_type.model_fields.items())
        self._dtypes = {one.name: _dtype(one, kind) for one in self.columns}

    def of_records(self, records: Sequence[Any]) -> Any:
        """Return objects of ``Input`` as a table."""
        values = {one.name: [getattr(record, one.name) for record in records] for one in self.columns}
        if self.kind != ARROW:
            return self._of_columns(values)
        import pyarrow as pa

        return pa.table({one.name: pa.array(values[one.name], arrow_type(one)) for one in self.columns})

    def of_arrow(self, table: "pa.Table") -> Any:
        """Return a table whose columns are the fields of ``Input``, in types that hold their values."""
        if self.kind == ARROW:
            return table
        return self._of_columns({name: _from_arrow(table[name], dtype) for name, dtype in self._dtypes.items()})

    def _of_columns(self, values: dict[str, Any]) -> Any:
        arrays = {name: _array(values[name], dtype) for name, dtype in self._dtypes.items()}
        if self.kind == NUMPY:
            return arrays
        import pandas as pd

        return pd.DataFrame(arrays, copy=False)


def _column(name: str, annotation: Any, file: str) -> Column:
    bare, optional = bare_type(annotation)
    many = typing.get_origin(bare) is list
    item = bare_type(typing.get_args(bare)[0])[0] if many else bare
    if typing.get_origin(item) is typing.Literal:
        kinds = {type(value) for value in typing.get_args(item)}
        item = kinds.pop() if len(kinds) == 1 else item
    if item not in TYPES:
        raise ContractError(
            f"{file}: Input.{name} is {annotation}, which is not a column of a table: expected float, int, bool, str, "
            "bytes, date, datetime or a list of them; write def predict(self, batch: list[Input]) for other types"
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

    form = pa.type_for_alias(TYPES[column.type][1])
    return pa.list_(form) if column.many else form


def _dtype(column: Column, kind: str) -> str:
    if column.many or (column.optional and column.type in NULLABLE and kind == NUMPY):
        return "object"
    if kind == PANDAS and column.type is str:
        import pandas as pd

        return TEXT if int(pd.__version__.partition(".")[0]) >= 3 else "object"
    return NULLABLE[column.type] if column.optional and column.type in NULLABLE else TYPES[column.type][0]


def _from_arrow(values: Any, dtype: str) -> Any:
    """Return a column of pyarrow as NumPy has it without a copy, or else as a list."""
    is_list = dtype in ("object", TEXT) or (dtype in OWN and values.null_count)
    return values.to_pylist() if is_list else values.to_numpy()


def _array(values: Any, dtype: str) -> Any:
    import numpy as np

    if dtype in OWN:
        import pandas as pd

        return pd.array(values, dtype=dtype)
    if dtype != "object":
        return np.asarray(values, dtype)
    found = np.empty(len(values), object)
    found[:] = values
    return found


def answer_columns(answer: Any, rows: int) -> dict[str, Any]:
    """Return the columns of a table that a model has returned, each a list, an array of NumPy or one of pyarrow.

    Raises TypeError when it is not a table, ValueError when it has not one row for each of the ``rows`` inputs.
    """
    if _name_of(type(answer)) == ARROW:
        columns = dict(zip(answer.column_names, answer.columns, strict=True))
    elif isinstance(answer, dict) or _name_of(type(answer)) == PANDAS:
        columns = {name: _unwrapped(answer[name]) for name in answer}
    else:
        raise TypeError(f"predict returned {type(answer).__name__}, no table like DataFrame({{'price': prices}})")
    for name, values in columns.items():
        if isinstance(values, str | bytes) or not hasattr(values, "__len__") or len(values) != rows:
            raise ValueError(f"predict returned column {name!r} without {rows} values, one for each input")
    return columns


def _unwrapped(values: Any) -> Any:
    """Return a Series as an array. Raises ValueError for rows in another order, as a concat of groups leaves them."""
    if _name_of(type(values)) != "pandas.Series":
        return values
    if not values.index.is_monotonic_increasing and set(values.index) == set(range(len(values))):
        raise ValueError("predict returned the rows in another order: end it with .sort_index()")
    is_plain = type(values.dtype).__module__.startswith("numpy") and values.dtype.kind in "iufb"
    return values.to_numpy() if is_plain else values.array


def answer_values(answer: Any, rows: int, of_objects: bool) -> list[Any]:
    """Return the values of a table or a column, one for each row: dicts of columns if Output is ``of_objects``.

    Raises as answer_columns does.
    """
    if not of_objects and hasattr(answer, "tolist"):
        return to_python(_unwrapped(answer))
    columns = {name: to_python(values) for name, values in answer_columns(answer, rows).items()}
    if not of_objects and len(columns) == 1:
        return next(iter(columns.values()))
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def to_python(values: Any) -> list[Any]:
    """Return a column as a list, with None for what pandas or pyarrow has no value for; NaN of NumPy stays NaN."""
    convert: Callable[[], list[Any]] | None = getattr(values, "to_pylist", None) or getattr(values, "tolist", None)
    found = convert() if convert else list(values)
    if not hasattr(values, "isna"):
        return found
    return [None if is_missing else one for one, is_missing in zip(found, values.isna(), strict=True)]
