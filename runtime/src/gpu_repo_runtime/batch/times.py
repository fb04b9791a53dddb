"""Dates and times of a column: pyarrow cuts a datetime to its date, and takes a time without a zone for one in UTC."""

from collections.abc import Iterable
from datetime import date, datetime, time
from itertools import chain
from typing import Any

import pyarrow as pa
from pyarrow import types


def holds_times(form: pa.DataType) -> bool:
    """Tell whether there are dates or times in a column of this type, also inside of lists and objects."""
    if types.is_nested(form):
        return any(holds_times(form.field(number).type) for number in range(form.num_fields))
    return bool(types.is_temporal(form))


def check_times(values: Iterable[Any]) -> None:
    """Raise TypeError when one place of the values holds dates and datetimes, or times with and without a zone."""
    values = [value for value in values if value is not None]
    kinds = sorted({kind for value in values if (kind := _kind(value))})
    if len(kinds) > 1:
        raise TypeError(f"{' and '.join(kinds)} in one column")
    if kinds == ["times of day with a zone"]:
        raise TypeError("a time of day with a zone, which no column holds")
    objects = [value for value in values if isinstance(value, dict)]
    for key in dict.fromkeys(key for one in objects for key in one):
        check_times(one.get(key) for one in objects)
    lists = [value for value in values if isinstance(value, list | tuple)]
    if lists:
        check_times(chain.from_iterable(lists))


def _kind(value: Any) -> str:
    if isinstance(value, datetime):
        return "datetimes" if value.tzinfo is None else "datetimes with a zone"
    if isinstance(value, time):
        return "times of day" if value.tzinfo is None else "times of day with a zone"
    return "dates" if isinstance(value, date) else ""
