"""What is read, computed and written together: a part, which is a run of rows of the files of a unit."""

from dataclasses import dataclass, field, replace

import pyarrow as pa

from .inputs import InputFile
from .shapes import Taken

FILE, ROW = "file", "row"
# What an input of the model is made of: a text, a line of JSON, or a struct of columns.
INPUT = "__input__"
# The column of a file of plain lines.
LINE_COLUMN = "text"
UNCOUNTED = "an unknown number of rows, at least 1: "


@dataclass(frozen=True)
class Columns:
    """The columns to read: `text` goes to the model, the `kept` ones go to the output as they are.

    typed: the columns of a model whose input is not a text; `text` is "" then. inputs: their types in Parquet. folders:
    the kept columns that the names of folders contain, as in year=2024.
    """

    text: str
    kept: pa.Schema
    typed: Taken | None = None
    folders: frozenset[str] = frozenset()
    inputs: pa.Schema = field(default_factory=lambda: pa.schema([]))

    @property
    def in_files(self) -> pa.Schema:
        """Return the kept columns that the files themselves contain."""
        return pa.schema([one for one in self.kept if one.name not in self.folders])

    @property
    def names(self) -> list[str]:
        """Return the names of all columns to read, each once."""
        own = self.typed.columns if self.typed else [self.text]
        return list(dict.fromkeys([*own, *self.in_files.names]))

    @property
    def required(self) -> list[str]:
        """Return the names of the columns that each file must contain."""
        own = self.typed.required if self.typed else [self.text]
        return list(dict.fromkeys([*own, *self.in_files.names]))


@dataclass(frozen=True)
class Limits:
    """The largest sizes of parts and rows. A part ends at `rows` rows or `size` bytes, whichever comes first."""

    rows: int
    size: int
    row_size: int


@dataclass(frozen=True)
class BadRow:
    """A row without a result; `count` rows from there share the reason. uncounted: their number is unknown."""

    row: int
    reason: str
    count: int = 1
    uncounted: bool = False
    raw: bytes | None = None
    file: str = ""

    def within(self, begin: int, end: int, file: InputFile) -> "BadRow":
        """Return the rows from `begin` to `end` of it, with the name of their file."""
        first = max(self.row, begin)
        return replace(self, row=first, count=min(self.row + self.count, end) - first, file=file.name)


@dataclass
class Part:
    """The rows of a part: the good ones in `table` (file, row, input, kept columns), the others in `bad`.

    rows: all of them, including blank lines. last: no part follows in the unit. through: the share of the unit up to
    its end.
    """

    unit: int
    index: int
    files: list[InputFile]
    rows: int = 0
    size: int = 0
    last: bool = False
    through: float = 1.0
    tables: list[pa.Table] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    table: pa.Table = None

    @property
    def name(self) -> str:
        """Return the name of the part, which is the name of its file."""
        return part_name(self.unit, self.index)

    def join(self, columns: Columns) -> None:
        """Make one table of the pieces that were read."""
        some = [one for one in self.tables if len(one)] or self.tables[:1]
        empty = pa.schema([(FILE, pa.string()), (ROW, pa.int64()), (INPUT, pa.string()), *columns.kept]).empty_table()
        self.table = pa.concat_tables(some, promote_options="default") if some else empty
        self.tables = []


def part_name(unit: int, index: int) -> str:
    """Return the name of part `index` of a unit."""
    return f"part-{unit:05d}-{index:06d}"
