"""What is read, computed and written together: a part, which is a run of rows of the files of a unit; and its files."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import ArrowException, fs

FILE, ROW = "file", "row"
# What an input of the model is made of: a text, a line of JSON, or a struct of columns.
INPUT = "__input__"
# The column of a file of plain lines.
LINE_COLUMN = "text"
UNCOUNTED = "an unknown number of rows, at least 1: "
# Files that are read or looked at together.
READERS = 16
COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}


@dataclass(frozen=True)
class Dialect:
    """How text files are written: the character between the fields of CSV, and the encoding; "" is the usual one.

    header: the names of the columns of CSV files without a header. nulls: words that stand for no value. quote: the
    character around fields of CSV, "none" where a quote is a part of the text.
    """

    delimiter: str = ""
    encoding: str = ""
    header: tuple[str, ...] = ()
    nulls: tuple[str, ...] = ()
    quote: str = '"'

    @property
    def mark(self) -> bytes:
        """Return the character around fields of CSV, b"" for none."""
        return b"" if self.quote == "none" else self.quote.encode()


PLAIN = Dialect()


@dataclass(frozen=True)
class InputFile:
    """A file of the input. `name` is its name in the output, `modified` is in ns since 1970.

    most: how many of its rows are read, where not all are.
    """

    name: str
    path: str
    size: int
    modified: int
    format: str
    filesystem: fs.FileSystem = field(compare=False, repr=False)
    dialect: Dialect = PLAIN
    most: int | None = None

    @property
    def is_local(self) -> bool:
        """Tell whether it is on a disk."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def open(self) -> Any:
        """Return the file's bytes, to be read from any place."""
        return self.filesystem.open_input_file(self.path)

    def blames(self, error: Exception) -> bool:
        """Tell whether an error of reading says that the content is wrong, so that another try gives the same.

        pyarrow raises OSError for broken content too, then without an errno; but so it does for a network that fails.
        """
        if not isinstance(error, OSError):
            return isinstance(error, ArrowException)
        return not error.errno and self.is_local

    def identity(self) -> dict[str, Any]:
        """Return what has to stay the same between two starts."""
        return {"name": self.name, "size": self.size, "modified": self.modified, "format": self.format}


# Files whose parts are numbered together: one, or small ones that follow one another.
Unit = tuple[InputFile, ...]


@dataclass(frozen=True)
class Limits:
    """The largest sizes of parts and rows. A part ends at `rows` rows or `size` bytes, whichever comes first."""

    rows: int
    size: int
    row_size: int


@dataclass(frozen=True)
class BadRow:
    """A row without a result. uncounted: it stands for an unknown number of rows, those behind damage.

    kept: its values of kept columns, as far as they could be read.
    """

    row: int
    reason: str
    uncounted: bool = False
    raw: bytes | None = None
    file: str = ""
    kept: dict[str, Any] = field(default_factory=dict)


# The good rows (row, input, kept columns), None where they were not read, and the bad ones.
Parsed = tuple[pa.Table | None, list[BadRow]]


@dataclass(frozen=True)
class Piece:
    """Rows of a file that are read together: `count` from the number `row` on, of about `size` bytes.

    through: the share of the file up to their end, 0 to 1. load: reads them.
    """

    row: int
    count: int
    size: float
    through: float
    load: Callable[[], Parsed]


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
    size: float = 0
    last: bool = False
    through: float = 0.0
    tables: list[pa.Table] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    table: pa.Table = None
    inputs: pa.Array = None

    def note(self, file: InputFile) -> None:
        """Note a file whose rows are in the part, even if it has none."""
        if file not in self.files[-1:]:
            self.files.append(file)

    def joined(self, kept: pa.Schema) -> "Part":
        """Return the part with one table of the pieces that were read."""
        empty = pa.schema([(FILE, pa.string()), (ROW, pa.int64()), (INPUT, pa.string()), *kept]).empty_table()
        found = pa.concat_tables(self.tables, promote_options="default").combine_chunks() if self.tables else empty
        self.tables = []
        self.set(found)
        return self

    def set(self, table: pa.Table) -> None:
        """Set the good rows, and what their inputs are made of."""
        self.table, found = table, table[INPUT]
        self.inputs = found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()


@dataclass(frozen=True)
class Shard:
    """Which part of the work is this process's: shard `index` of `count`, and in it worker `worker` of `workers`."""

    index: int = 0
    count: int = 1
    worker: int = 0
    workers: int = 1

    def __str__(self) -> str:
        own = f".{self.worker}/{self.workers}" if self.workers > 1 else ""
        return f"{self.index}/{self.count}{own}"

    @property
    def is_alone(self) -> bool:
        """Tell whether no other process works on the job."""
        return self.count == self.workers == 1


@dataclass(frozen=True)
class Todo:
    """The parts that a process has to do: those of its shard that are not `done`.

    shared: the units of small files, whose parts are all one process's: where one ends, only reading tells.
    """

    shard: Shard
    shared: frozenset[int]
    done: Collection[tuple[int, int]] = ()

    def wants(self, unit: int, part: int) -> bool:
        """Tell whether a part is to be done. Neighbouring parts go to different shards."""
        number, shard = unit + (0 if unit in self.shared else part), self.shard
        is_own = number % shard.count == shard.index and number // shard.count % shard.workers == shard.worker
        return is_own and (unit, part) not in self.done
