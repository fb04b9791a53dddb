"""Records of text formats, parsed into a table and bad rows."""

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import json as pa_json

from .commontypes import together
from .exits import BadInput
from .lines import Line, TooLong, too_long
from .overflow import has_bound, loses, may_be_lost, may_be_too_small
from .parts import LINE_COLUMN, ROW, TEXT, BadRow, Columns, table_schema
from .values import column
from .widening import LARGEST, UNFIT, extremes, infer, is_empty, within

Parsed = tuple[pa.Table, list[BadRow]]
# What pyarrow reads from JSON without changing a value; whole numbers as double have to be looked at.
_READ_AS_WRITTEN = (pa.string(), pa.bool_(), pa.int64(), pa.uint64(), pa.float64())
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TEXT = pa.string()


def parse_lines(lines: Sequence[Line], first_row: int, columns: Columns) -> Parsed:
    """Parse lines of plain text: each one is a row."""
    good: list[tuple[int, Any, tuple[Any, ...]]] = []
    bad: list[BadRow] = []
    for row, line in enumerate(lines, first_row):
        if isinstance(line, TooLong):
            bad.append(BadRow(row, too_long(line)))
            continue
        text = line.removesuffix(b"\r").decode("utf-8", "surrogateescape")
        value = {LINE_COLUMN: text} if columns.typed else text
        good.append((row, value, (text,) * len(columns.kept)))
    return to_table(good, bad, columns, pa.struct([(LINE_COLUMN, _TEXT)]) if columns.typed else _TEXT)


def parse_json(lines: Sequence[Line], first_row: int, columns: Columns) -> Parsed:
    """Parse JSON Lines. pyarrow reads them all at once; where it cannot, halves of them, and a line alone is Python's.

    So what becomes of a line does not depend on the lines around it.
    """
    if columns.typed and not columns.kept.names:
        return _whole_lines(lines, first_row, columns)
    ways = _ways_to_read(columns)
    if not ways:
        return _parse_json_by_python(lines, first_row, columns)
    for wanted in ways:
        with contextlib.suppress(pa.ArrowException, TypeError, ValueError):
            return _parse_json_at_once(lines, first_row, columns, wanted), []
    if len(lines) == 1:
        return _parse_json_alone(lines[0], first_row, columns)
    middle = len(lines) // 2
    first, bad = parse_json(lines[:middle], first_row, columns)
    second, more = parse_json(lines[middle:], first_row + middle, columns)
    return together([first, second], table_schema(columns)), bad + more


def _whole_lines(lines: Sequence[Line], first_row: int, columns: Columns) -> Parsed:
    """Return lines as they are, of which inputs are made later."""
    good: list[tuple[int, Any, tuple[Any, ...]]] = []
    bad: list[BadRow] = []
    for row, line in enumerate(lines, first_row):
        if isinstance(line, TooLong):
            bad.append(BadRow(row, too_long(line)))
        elif line.strip():
            good.append((row, line.decode("utf-8", "surrogateescape"), ()))
    return to_table(good, bad, columns)


def _ways_to_read(columns: Columns) -> list[pa.Schema]:
    """Return the types to ask pyarrow for: the plan's, and fractions where it has whole numbers so far."""
    text = [] if columns.typed else [pa.field(columns.text, pa.string())]
    fields = [*text, *(f for f in columns.kept if f.name != columns.text)]
    if not all(field.type in _READ_AS_WRITTEN for field in fields):
        return []
    wider = [pa.field(f.name, pa.float64()) if f.type == pa.int64() and not f.metadata else f for f in fields]
    return [pa.schema(fields)] if wider == fields else [pa.schema(fields), pa.schema(wider)]


def _parse_json_at_once(lines: Sequence[Line], first_row: int, columns: Columns, wanted: pa.Schema) -> pa.Table:
    block = b"\n".join(lines)  # type: ignore[arg-type]  # TypeError where a line was too long
    # pyarrow does not mind line ends: two objects on a line and an empty line would look like one object on each.
    if max(block.count(b"}\n{"), block.count(b"}\r\n{")) != len(lines) - 1 or not block.startswith(b"{"):
        raise ValueError("not every line begins and ends an object")
    if may_be_too_small(block):
        raise ValueError("a number that may become 0")
    options = pa_json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    read = pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1)
    table = pa_json.read_json(pa.BufferReader(block), read_options=read, parse_options=options)
    text = pa.chunked_array([pa.array(lines).cast(pa.string())]) if columns.typed else table[columns.text]
    if len(table) != len(lines) or text.null_count:
        raise ValueError("two objects on a line, or one without text")
    table.validate(full=True)
    for field in columns.kept:
        found = within(table[field.name], field)
        # Such a number may have been a whole one, which would not be the same any more.
        if pa.types.is_floating(found.type) and not max(map(abs, extremes(found))) < LARGEST:
            raise ValueError("a number that may have been rounded")
    rows = pa.array(range(first_row, first_row + len(table)), pa.int64())
    kept = columns.kept.names
    return pa.table([rows, text, *(table[name] for name in kept)], names=[ROW, TEXT, *kept])


def _parse_json_alone(line: Line, row: int, columns: Columns) -> Parsed:
    return _parse_json_by_python([line], row, columns)


def _parse_json_by_python(lines: Sequence[Line], first_row: int, columns: Columns) -> Parsed:
    """Parse lines one by one, and make columns of all of them together."""
    good: list[tuple[int, Any, tuple[Any, ...]]] = []
    bad: list[BadRow] = []
    for row, line in enumerate(lines, first_row):
        found = _parsed(line, row, columns)
        if isinstance(found, BadRow):
            bad.append(found)
        elif found is not None:
            good.append(found)
    return to_table(good, bad, columns)


def _parsed(line: Line, row: int, columns: Columns) -> tuple[int, Any, tuple[Any, ...]] | BadRow | None:
    """Return the row that a line is, None for a blank line."""
    if isinstance(line, bytes) and not line.strip():
        return None
    try:
        record = _json_object(line, any_value=columns.typed is not None and columns.typed.line)
        if any(map(has_bound, map(record.get, columns.kept.names))) and _loses(line):
            raise ValueError("a number that is too large or too small for a double")
    except (ValueError, RecursionError) as error:
        return BadRow(row, str(error))
    text = line.decode("utf-8-sig") if columns.typed and isinstance(line, bytes) else record.get(columns.text)
    return row, text, tuple(map(record.get, columns.kept.names))


def _loses(line: Line) -> bool:
    return isinstance(line, bytes) and may_be_lost(text := line.decode()) and loses(text)


def _json_object(line: Line, any_value: bool = False) -> dict[str, Any]:
    if isinstance(line, TooLong):
        raise ValueError(too_long(line))
    try:
        # Python would guess at UTF-16 where it is given bytes.
        record = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"no UTF-8: {error.reason} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error}") from None
    except ValueError:  # whose words are about a setting of Python
        raise ValueError(f"a number of more than {sys.get_int_max_str_digits()} digits") from None
    if any_value:
        return {}
    if not isinstance(record, dict):
        raise ValueError(f"no JSON object but {type(record).__name__}")
    return record


def csv_parser(header: list[str], file_name: str) -> Callable[[Sequence[Any], int, Columns], Parsed]:
    """Return the function that parses records under this header."""
    position = {name: index for index, name in enumerate(header)}
    times = Counter(header)

    def parse(records: Sequence[Any], first_row: int, columns: Columns) -> Parsed:
        missing = [name for name in columns.required if name not in position]
        if missing:
            raise BadInput(f"{file_name}: no column {missing[0]!r}; there are {', '.join(header)}")
        double = next((name for name in columns.names if times[name] > 1), None)
        if double is not None:
            raise BadInput(f"{file_name}: {times[double]} columns {double!r}: which one is meant?")
        kept = [position[name] for name in columns.kept.names]
        of_input = {name: position[name] for name in columns.typed.columns if name in position} if columns.typed else {}
        text = -1 if columns.typed else position[columns.text]
        form = pa.struct([(name, pa.string()) for name in of_input]) if columns.typed else pa.string()
        good: list[tuple[int, Any, tuple[Any, ...]]] = []
        bad: list[BadRow] = []
        for row, record in enumerate(records, first_row):
            if isinstance(record, list) and len(record) == len(header):
                value = {name: record[n] for name, n in of_input.items()} if columns.typed else record[text]
                good.append((row, value, tuple(record[index] for index in kept)))
            elif isinstance(record, list):
                bad.append(BadRow(row, f"{len(record)} fields where the header has {len(header)}"))
            else:
                bad.append(BadRow(row, str(record)))
        return to_table(good, bad, columns, form)

    return parse


def to_table(
    rows: list[tuple[int, Any, tuple[Any, ...]]], bad: list[BadRow], columns: Columns, form: Any = _TEXT
) -> Parsed:
    """Return (row, text, kept values) as a table; rows whose values are not text or of another type become bad ones.

    form: the type of what stands in the text's place.
    """
    try:
        table = _columns(rows, columns, form)
        if not table[TEXT].null_count:
            return table, bad
    except UNFIT:
        pass
    good = []
    for entry in rows:
        reason = _why_bad(entry, columns, form)
        if reason:
            bad.append(BadRow(entry[0], reason))
        else:
            good.append(entry)
    try:
        return _columns(good, columns, form), sorted(bad, key=lambda b: b.row)
    except UNFIT as error:
        raise BadInput(
            f"rows {good[0][0]} to {good[-1][0]} of a file have no common type under a key that is new in them: "
            f"{' '.join(str(error).split())}; leave such a column out with --keep"
        ) from None


def _columns(rows: list[tuple[int, Any, tuple[Any, ...]]], columns: Columns, form: pa.DataType) -> pa.Table:
    arrays = [pa.array([entry[0] for entry in rows], pa.int64()), pa.array([entry[1] for entry in rows], form)]
    for index, field in enumerate(columns.kept):
        # The text is there once when it is kept too.
        is_text = not columns.typed and field.name == columns.text and field.type.equals(form)
        arrays.append(arrays[1] if is_text else column([entry[2][index] for entry in rows], field))
    return pa.table(arrays, names=[ROW, TEXT, *columns.kept.names])


def _why_bad(entry: tuple[int, Any, tuple[Any, ...]], columns: Columns, form: pa.DataType) -> str:
    _, text, kept = entry
    if form != _TEXT:
        broken = [name for name, cell in text.items() if not _is_utf8(cell)]
        if broken:
            return f"column {broken[0]!r} is not UTF-8"
        kept_only = zip(columns.kept, kept, strict=True)
        return next((reason for field, value in kept_only if (reason := _why_unfit(field, value))), "")
    if text is None:
        return f"no value in column {columns.text!r}"
    if not isinstance(text, str):
        return f"column {columns.text!r} holds {type(text).__name__} where it needs text"
    if columns.typed and not _is_utf8(text):
        return "the line is not UTF-8"
    checked = [(pa.field(columns.text, pa.string()), text), *zip(columns.kept, kept, strict=True)]
    return next((reason for field, value in checked if (reason := _why_unfit(field, value))), "")


def _why_unfit(field: pa.Field, value: Any) -> str:
    try:
        column([value], field)
    except UnicodeError:
        return f"column {field.name!r} is not UTF-8"
    except UNFIT as error:
        if reason := _why_no_column(value):
            return f"column {field.name!r} holds {reason}; leave it out with --keep"
        number = f": {value}" if isinstance(value, int | float) and isinstance(error, ValueError) else ""
        return f"column {field.name!r} holds {type(value).__name__} where it held {field.type} at first{number}"
    return ""


def _why_no_column(value: Any) -> str:
    """Say why a value makes no column at all, "" where it does."""
    try:
        return "an empty object, for which there are no columns" if is_empty(infer([value])[0]) else ""
    except UNFIT as error:
        return f"a {type(value).__name__} that makes no column: {' '.join(str(error).split())}"


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
