"""How many rows may be bad: a share of all rows of the input, whichever workers have met them."""

import time
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from .exits import BadInput
from .inputs import InputFile

# With fewer rows nothing is gained by an early end.
ENOUGH_ROWS = 1000
# To look at what all workers have recorded costs as many requests as there are parts.
LOOK_SECONDS = 30.0
_BLOCK = 1 << 20


def judge(rows: int, bad: int, uncounted: int, max_bad: float) -> None:
    """Raise BadInput when more than a share of all rows is bad, or an unknown number of them."""
    if uncounted and max_bad < 1:
        raise BadInput(
            f"{uncounted} files or ends of files cannot be read, and nobody knows how many rows they held: "
            "only --max-bad 1 goes on without them"
        )
    if rows and bad > max_bad * rows:
        raise BadInput(f"{bad:,} of {rows:,} rows are bad, more than --max-bad {max_bad:g} allows")


class Budget:
    """Ends a run early when more rows are bad already than may be of the whole input.

    A share of the rows so far says nothing: the bad ones may all be at the beginning, or in the parts of one worker.

    bad_of_all: returns how many rows are bad in what all workers have recorded; None for a worker that is alone.
    """

    def __init__(self, files: Sequence[InputFile], max_bad: float, bad_of_all: Callable[[], int] | None) -> None:
        self._files, self._max_bad, self._bad_of_all = files, max_bad, bad_of_all
        self._most_rows: float | None = None
        self._next_look = 0.0

    def look(self, rows: int, bad: int) -> None:
        """Judge by the rows that this worker has done and those that are bad among them. Raises BadInput.

        The first time that too many of them are bad, it reads the whole input to count its lines.
        """
        if rows < ENOUGH_ROWS or bad <= self._max_bad * rows:
            return
        if self._most_rows is None:
            self._most_rows = most_rows(self._files)
        if bad <= self._max_bad * self._most_rows and self._bad_of_all and time.monotonic() >= self._next_look:
            bad = max(bad, self._bad_of_all())
            self._next_look = time.monotonic() + LOOK_SECONDS
        if bad > self._max_bad * self._most_rows:
            raise BadInput(
                f"{bad:,} rows are bad already, more than --max-bad {self._max_bad:g} allows of the whole input, "
                f"which has no more than {self._most_rows:,} rows"
            )


def most_rows(files: Sequence[InputFile]) -> float:
    """Return how many rows the files have at most, infinity where one of them cannot be read."""
    try:
        return sum(map(_most_rows, files))
    except (OSError, pa.ArrowException):
        return float("inf")


def _most_rows(file: InputFile) -> int:
    if file.format == "parquet":
        found = int(pq.read_metadata(file.open()).num_rows)
    else:
        # A record of CSV has a line or more, and the last line may lack its end.
        found = 1
        with file.open_stream() as stream:
            while block := stream.read(_BLOCK):
                found += block.count(b"\n")
    return found if file.most is None else min(found, file.most)
