"""Tables for an owner's model, made of the columns of the input without an object for each row where that is right."""

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from ..interface import Interface
from ..tables import Column, arrow_type
from .columns import UNFIT
from .fields import InputColumns
from .making import Made, Maker, plain_fields
from .parts import InputFile

# Fewer rows than these are made one by one when one of them is not an input.
FEW = 256
_FROM = {
    float: (types.is_floating, types.is_integer, types.is_decimal),
    int: (types.is_integer, types.is_floating),
    bool: (types.is_boolean,),
    str: (types.is_string, types.is_large_string, types.is_string_view),
}


class TableMaker:
    """Makes tables whose columns are the fields of ``Input``."""

    def __init__(self, interface: Interface, columns: InputColumns, limit: int) -> None:
        assert interface.table
        self._maker, self._columns = Maker(interface, columns, limit), interface.table.columns
        self._sources = {field.name: field.column for field in columns.fields}
        input_type: Any = interface.input
        self._fields = input_type.model_fields
        is_plain = plain_fields(interface.inputs.core_schema).issuperset(one.name for one in self._columns)
        self._is_fast = is_plain and not columns.files
        self._schema = pa.schema([(one.name, arrow_type(one)) for one in self._columns])

    def inputs(self, values: pa.Array, file: InputFile) -> Made:
        """Return the inputs as a table, and why other rows are none: place -> reason."""
        if self._is_fast and file.format != "jsonl":
            try:
                return self._cast(values), {}
            except UNFIT:
                if len(values) > FEW:
                    return self._halves(values, file)
        inputs, bad = self._maker.inputs(values, file)
        return self._of_objects(inputs, bad, len(values))

    def _halves(self, values: pa.Array, file: InputFile) -> Made:
        middle = len(values) // 2
        (first, bad), (second, more) = self.inputs(values[:middle], file), self.inputs(values[middle:], file)
        return pa.concat_tables([first, second]), bad | {middle + place: why for place, why in more.items()}

    def _of_objects(self, inputs: list[Any], bad: dict[int, str], rows: int) -> Made:
        try:
            return self._as_table(inputs), bad
        except UNFIT:
            places, found = [place for place in range(rows) if place not in bad], []
        for place, one in zip(places, inputs, strict=True):
            try:
                found.append(self._as_table([one]))
            except UNFIT as error:
                bad[place] = f"invalid row: {' '.join(str(error).split())[:300]}"
        return pa.concat_tables([self._schema.empty_table(), *found]), bad

    def _as_table(self, inputs: list[Any]) -> pa.Table:
        columns = [pa.array([getattr(one, f.name) for one in inputs], f.type) for f in self._schema]
        return pa.table(columns, schema=self._schema)

    def _cast(self, values: pa.Array) -> pa.Table:
        """Return columns in the types of the fields. Raises one of UNFIT where pydantic has to look at a row."""
        arrays = [self._column(values, column) for column in self._columns]
        return pa.table(arrays, schema=self._schema)

    def _column(self, values: pa.Array, column: Column) -> pa.Array:
        source = self._sources.get(column.name)
        field = self._fields[column.name]
        if source is None or source not in values.type.names:
            return self._filled(pa.nulls(len(values), arrow_type(column)), column, is_text=True)
        found = values.field(source)
        if any(test(found.type) for test in _FROM[column.type]):
            return self._filled(found.cast(arrow_type(column)), column, is_text=False)
        if not types.is_string(found.type) or field.annotation is str:
            raise TypeError(f"{column.name} is {found.type}")
        return self._filled(_numbers(found, column), column, is_text=True)

    def _filled(self, found: pa.Array, column: Column, is_text: bool) -> pa.Array:
        """Return a column with the default for nulls; a null of Parquet stays where the field takes it.

        is_text: what is null was an empty cell, or is not there at all.
        """
        field = self._fields[column.name]
        if not found.null_count or (column.optional and (field.is_required() or not is_text)):
            return found
        if field.is_required() or field.default_factory:
            raise ValueError(f"no value in column {column.name!r}")
        return found if field.default is None else found.fill_null(field.default)


def _numbers(cells: pa.Array, column: Column) -> pa.Array:
    """Return the numbers or booleans of cells of text. Raises one of UNFIT for what only pydantic reads or rejects."""
    found = cells.cast(arrow_type(column))
    if column.type is float and not math.isfinite(pc.sum(found).as_py() or 0.0):
        raise ValueError("a number that is not finite")
    if column.type is int and pc.any(pc.match_substring(cells, "x", ignore_case=True)).as_py():
        raise ValueError("a number in hexadecimal digits")
    return found
