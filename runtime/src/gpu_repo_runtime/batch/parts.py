"""What is read, computed and written as one: a part, a run of rows of one file, or of several small ones."""

from bisect import bisect_right
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from .inputs import InputFile
from .shapes import Taken
from .widening import without_notes

ROW = "row"
TEXT = "__text__"
# Of a file of plain lines.
LINE_COLUMN = "text"


@dataclass(frozen=True)
class Columns:
    """Which columns are read: `text` goes to the model, `kept` goes to the output as it is.

    typed: the columns that go to a model of another input than a text; there is no `text` then. folders: those of the
    kept ones that are told by the folders of a file.
    """

    text: str
    kept: pa.Schema
    typed: Taken | None = None
    folders: frozenset[str] = frozenset()

    def in_files(self) -> "Columns":
        """Return the columns that the files themselves have."""
        kept = pa.schema([field for field in self.kept if field.name not in self.folders])
        return replace(self, kept=kept, folders=frozenset())

    @property
    def names(self) -> list[str]:
        """Return the names of all columns that are read, each once."""
        return list(dict.fromkeys([*(self.typed.columns if self.typed else [self.text]), *self.kept.names]))

    @property
    def required(self) -> list[str]:
        """Return the names of the columns that each file has to have."""
        return list(dict.fromkeys([*(self.typed.required if self.typed else [self.text]), *self.kept.names]))


@dataclass(frozen=True)
class Limits:
    """How large parts and rows may be. A part ends at `rows` rows or `size` bytes, whichever comes first."""

    rows: int
    size: int
    row_size: int


@dataclass(frozen=True)
class BadRow:
    """A row that gives no result. `row` counts from 0 in its file; `count` rows from there share the reason.

    uncounted: they are more, and nobody can know how many. raw: the line, or what goes to the model, where it is known.
    """

    row: int
    reason: str
    count: int = 1
    uncounted: bool = False
    raw: bytes | None = None


UNCOUNTED = "an unknown number of rows, at least 1: "


@dataclass
class Part:
    """Rows `first_row` to `first_row + rows` of a file: the good ones in `table`, the others in `bad`.

    table: columns "row" (int64), "__text__" and the kept ones, perhaps of wider types than the plan's. "__text__" is
    a string; for other inputs than texts it is a line of JSON, or an object of columns. end: the byte of the file after
    the part, 0 where the format does not need it. last: no rows follow in the file. through: the share of the file up
    to its end. members: of small files that are one part, the number of the first row of each; `file` is the first of
    them, and row numbers go on from file to file.
    """

    file: InputFile
    file_index: int
    index: int
    first_row: int
    rows: int
    last: bool
    end: int
    table: pa.Table
    through: float = 1.0
    bad: list[BadRow] = field(default_factory=list)
    members: tuple[tuple[int, InputFile], ...] = ()

    @property
    def files(self) -> list[InputFile]:
        """Return all files that the part has rows of."""
        return [file for _, file in self.members] or [self.file]

    def origin(self, row: int) -> tuple[InputFile, int]:
        """Return the file of a row of the part, and the row's number in it."""
        if not self.members:
            return self.file, row
        begin, file = self.members[bisect_right(self.members, row, key=lambda member: member[0]) - 1]
        return file, row - begin

    def with_origins(self, table: pa.Table) -> pa.Table:
        """Return rows of the part, which `ROW` numbers, under `file` and their numbers there."""
        if not self.members:
            return table.add_column(0, "file", pa.repeat(pa.scalar(self.file.name, pa.string()), len(table)))
        begins = np.array([begin for begin, _ in self.members])
        rows = table[ROW].to_numpy()
        which = np.searchsorted(begins, rows, side="right") - 1
        numbered = table.set_column(table.schema.get_field_index(ROW), ROW, pa.array(rows - begins[which]))
        names = pa.array([file.name for _, file in self.members], pa.string())
        return numbered.add_column(0, "file", names.take(pa.array(which)))

    @property
    def name(self) -> str:
        """Return the name of the part, which is that of its files too."""
        return part_name(self.file_index, self.index)


def part_name(file_index: int, index: int) -> str:
    """Return the name of part `index` of the input's file `file_index`."""
    return f"part-{file_index:05d}-{index:06d}"


def numbers(name: str) -> tuple[int, int]:
    """Return the number of the file and of the part from the name of a part's file."""
    _, file_index, index = name.partition(".")[0].split("-")
    return int(file_index), int(index)


def table_schema(columns: Columns) -> pa.Schema:
    """Return the schema of the table of a part; those of its kept columns may be wider."""
    return pa.schema([(ROW, pa.int64()), (TEXT, pa.string()), *without_notes(columns.kept)])


def empty_table(columns: Columns) -> pa.Table:
    """Return the table of a part without good rows."""
    return table_schema(columns).empty_table()
