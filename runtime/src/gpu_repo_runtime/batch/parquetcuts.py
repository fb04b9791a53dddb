"""Where the parts of a Parquet file end, as its metadata and first rows tell: no other row has to be read for that."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from .inputs import InputFile
from .parts import Limits

# How much of a row group is in memory at once while it is read.
READ_ROWS = 16_384
READ_BYTES = 4 << 20
SAMPLE_ROWS = 256


@dataclass(frozen=True)
class Cut:
    """ends: the row behind each part. pieces: how many rows of each row group are read at once."""

    ends: list[int]
    pieces: list[int]

    def range(self, part: int) -> tuple[int, int]:
        """Return the first row of a part and the one behind it."""
        return (self.ends[part - 1] if part else 0), self.ends[part]


def cut(file: InputFile, source: pq.ParquetFile, names: Iterable[str], limits: Limits, total: int) -> Cut:
    """Return where the parts of the file's first `total` rows end, of which these columns are read.

    A part has less than limits.rows rows where they are large: each row group has a size of its own.
    """
    metadata = source.metadata
    own = set(source.schema_arrow.names)
    there = [name for name in names if name in own]
    read = set(there)
    columns = [n for n in range(metadata.num_columns) if _is_in(metadata.schema.column(n).path, read)]
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    rows = [group.num_rows for group in groups]
    sizes = [sum(group.column(n).total_uncompressed_size for n in columns) for group in groups]
    means = [size / max(1, count) for size, count in zip(sizes, rows, strict=True)]
    # A value that comes again and again is in the file once: only reading tells how large such rows are.
    if sum(size * count for size, count in zip(sizes, rows, strict=True)) > limits.size:
        least = _mean_of_first_rows(file, source, there, max(means, default=0), limits.size)
        means = [max(mean, least) for mean in means]
    at_once = min(READ_BYTES, limits.size)
    pieces = [max(1, min(READ_ROWS, limits.rows, int(at_once / max(1.0, mean)))) for mean in means]
    return Cut(_ends(rows, means, limits, total), pieces)


def _is_in(path: str, names: Set[str]) -> bool:
    """Tell whether a path is that of a column, whose name may have dots, or leads into one."""
    words = path.split(".")
    return any(".".join(words[:count]) in names for count in range(1, len(words) + 1))


def _ends(rows: Sequence[int], means: Sequence[float], limits: Limits, total: int) -> list[int]:
    ends: list[int] = []
    position = count = 0
    size = 0.0
    for group_rows, group_mean in zip(rows, means, strict=True):
        mean = max(1.0, group_mean)
        left = min(group_rows, total - position)
        while left:
            room = min(limits.rows - count, int((limits.size - size) / mean))
            if room < 1 and count:
                ends.append(position)
                count, size = 0, 0.0
                continue
            taken = min(left, max(1, room))
            position, left, count, size = position + taken, left - taken, count + taken, size + taken * mean
    return [*ends, position] if count or not ends else ends


def _mean_of_first_rows(file: InputFile, source: pq.ParquetFile, names: list[str], largest: float, most: int) -> float:
    """Return the mean bytes of the first rows in memory, 0 where they cannot be read."""
    rows = max(1, min(SAMPLE_ROWS, int(min(READ_BYTES, most) / max(1.0, largest))))
    try:
        batch = next(source.iter_batches(rows, columns=names, use_threads=False), None)
    except (OSError, pa.ArrowException) as error:
        if not file.blames(error):
            raise
        return 0
    return batch.nbytes / len(batch) if batch else 0
