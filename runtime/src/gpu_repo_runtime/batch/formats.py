"""The files of a result: Parquet, JSON Lines or CSV, in folders by the values of columns. Same table, same bytes."""

import base64
import datetime
import decimal
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pyarrow import types

from .exits import BadConfiguration, BadInput
from .inputs import NO_VALUE
from .plaintext import has_others, in_text

FORMATS = ("parquet", "jsonl", "csv")
# Of one part: each is a file of its own.
MOST_FOLDERS = 1000
# What the file systems of Linux take for one name.
_NAME_BYTES = 255
# Rows that are Python's objects at the same time.
_AT_ONCE = 1024
_ASCII = re.compile(r"[\x00-\x7f]+")
_PAGE_BYTES = 1 << 20
_LARGE = 8 << 20
_BYTES = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
_IN_NAMES = (types.is_string, types.is_large_string, types.is_integer, types.is_boolean, types.is_date)


@dataclass(frozen=True)
class Form:
    """How the result is written: its format, and the columns whose values are folders."""

    name: str = "parquet"
    folders: tuple[str, ...] = ()

    def check(self, kept: pa.Schema, result: pa.Schema) -> None:
        """Raise BadConfiguration when a column for folders is not there or its values are not names."""
        for name in self.folders:
            if name.startswith(("_", ".")):
                raise BadConfiguration(
                    f"--partition-by: readers pass over folders whose names begin with {name[0]}, as those of {name!r} "
                    "would"
                )
            field = next((schema.field(name) for schema in (kept, result) if name in schema.names), None)
            if field is None:
                known = ", ".join([*kept.names, *result.names])
                raise BadConfiguration(
                    f"--partition-by: the output has no column {name!r} (see --keep); it has: {known}"
                )
            if not _makes_names(field.type):
                raise BadConfiguration(
                    f"--partition-by: column {name!r} holds {field.type}; texts, whole numbers, dates and true or "
                    "false can be names of folders"
                )

    def files(self, table: pa.Table, name: str) -> dict[str, pa.Buffer]:
        """Return the content of each file of a part by its path below the folder of the result. Raises BadInput."""
        folders = _by_folder(table, self.folders)
        try:
            return {f"{folder}{name}.{self.name}": as_bytes(rows, self.name) for folder, rows in folders.items()}
        except KeyError:
            raise BadInput(
                f"{name}: a map has a key twice, which {self.name} does not know; leave it out with --keep, or take "
                "--output-format parquet"
            ) from None
        except pa.ArrowNotImplementedError as error:
            # As of an object without keys, which Parquet does not have.
            raise BadInput(
                f"{name}: a column cannot be written as {self.name}: {' '.join(str(error).split())}; leave it out with "
                "--keep, or take another --output-format"
            ) from None


PARQUET = Form()


def as_bytes(table: pa.Table, form: str = "parquet") -> pa.Buffer:
    """Return the table as a file of a format."""
    if form == "parquet" and table.nbytes > _LARGE:
        # It grows without a copy.
        large = io.BytesIO()
        _write_parquet(table, large)
        return pa.py_buffer(large.getbuffer())
    sink = pa.BufferOutputStream()
    if form == "jsonl":
        for batch in _plain(table).to_batches(_AT_ONCE):
            sink.write("".join(map(_line, batch.to_pylist(maps_as_pydicts="strict"))).encode())
    elif form == "csv":
        pa_csv.write_csv(_flat(_plain(table)), sink)
    else:
        # A dictionary costs as much as all the rest, and only what repeats gets smaller by it: surely the file's name.
        _write_parquet(table, sink)
    return sink.getvalue()


def _write_parquet(table: pa.Table, sink: Any) -> None:
    # A page ends only behind these rows, and whoever reads one has all of it in memory.
    rows = max(1, min(_AT_ONCE, int(_PAGE_BYTES / max(1, table.nbytes / max(1, len(table))))))
    pq.write_table(table, sink, compression="zstd", use_dictionary=["file"], write_batch_size=rows)


def _line(row: dict[str, Any]) -> str:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False, default=_in_json) + "\n"
    except ValueError:
        # NaN and infinity, which JSON does not have.
        return json.dumps(_finite(row), ensure_ascii=False, default=_in_json) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _in_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        # By the column's scale and not by the value: in a column all are numbers or all are texts.
        return str(value) if int(value.as_tuple().exponent) < 0 else int(value)
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)


def _plain(table: pa.Table) -> pa.Table:
    """Return the table with times as texts, and durations as whole numbers."""
    for number, field in enumerate(table.schema):
        if has_others(field.type):
            table = table.set_column(number, field.name, in_text(table.column(number).combine_chunks(), _key))
    return table


def _key(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool) else _cell(value)


def _flat(table: pa.Table) -> pa.Table:
    """Return the table with lists, objects and bytes as texts, as the input of CSV has them."""
    for number, field in enumerate(table.schema):
        if types.is_nested(field.type) or any(is_one(field.type) for is_one in _BYTES):
            values = table.column(number).to_pylist(maps_as_pydicts="strict")
            cells = [None if v is None else v if isinstance(v, str) else _cell(v) for v in values]
            table = table.set_column(number, field.name, pa.array(cells, pa.string()))
        elif isinstance(field.type, pa.BaseExtensionType):
            values = table.column(number).to_pylist()
            table = table.set_column(number, field.name, pa.array([v if v is None else str(v) for v in values]))
        elif types.is_decimal(field.type):
            table = table.set_column(number, field.name, table.column(number).cast(pa.string()))
    return table


def _cell(value: Any) -> str:
    return str(_in_json(value)) if isinstance(value, bytes) else _line(value).rstrip("\n")


def _makes_names(form: pa.DataType) -> bool:
    return any(is_one(form) for is_one in _IN_NAMES)


def _by_folder(table: pa.Table, names: Sequence[str]) -> dict[str, pa.Table]:
    """Return the rows of each folder by its path with a slash at the end, in their order."""
    if not names:
        return {"": table}
    folders = np.array([""], object)
    codes = np.zeros(len(table), np.int64)
    for name in names:
        encoded = _texts(table[name], name).dictionary_encode("encode")
        values = encoded.dictionary
        found = np.array([f"{_escaped(name)}={_folder(text, name)}/" for text in values.to_pylist()], object)
        codes = codes * max(1, len(found)) + encoded.indices.to_numpy()
        there, codes = np.unique(codes, return_inverse=True)
        folders = np.array([folders[n // max(1, len(found))] + found[n % len(found)] for n in there], object)
        if len(folders) > MOST_FOLDERS:
            raise BadInput(
                f"--partition-by {','.join(names)}: {len(folders):,} folders for one part, and no more than "
                f"{MOST_FOLDERS:,} are made: take a column with fewer values"
            )
    order = np.argsort(codes, kind="stable")
    rows = table.drop_columns(list(names)).take(pa.array(order))
    counts = np.bincount(codes, minlength=len(folders))
    begins = np.cumsum(counts) - counts
    return {folder: rows.slice(a, n) for folder, a, n in zip(folders, begins, counts, strict=True) if n}


def _texts(values: pa.ChunkedArray, name: str) -> pa.Array:
    if not _makes_names(values.type):
        raise BadInput(f"--partition-by: column {name!r} holds {values.type} here, which cannot be a folder's name")
    texts = values.cast(pa.string()).combine_chunks()
    # Hive knows no empty text: it is in one folder with what has no value.
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _folder(text: str | None, name: str) -> str:
    """Return a value as part of a folder's name, as Hive, Spark and pyarrow read it. Raises BadInput when too long."""
    if text is None:
        return NO_VALUE
    escaped = _escaped(text, " ")
    if text == NO_VALUE:
        escaped = "%5F" + escaped[1:]
    if len(f"{_escaped(name)}={escaped}".encode()) > _NAME_BYTES:
        raise BadInput(f"--partition-by: a value of {name!r} is too long for a folder's name: {text[:60]} ...")
    return escaped


def _escaped(text: str, safe: str = "") -> str:
    """Return a text as Hive escapes it: of what is behind % it makes one character, so that is for ASCII alone."""
    return _ASCII.sub(lambda found: quote(found[0], safe=safe), text)
