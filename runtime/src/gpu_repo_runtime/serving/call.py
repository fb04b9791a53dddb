"""One request on its way through the batcher."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, eq=False)
class Call:
    """The inputs of one request and their answers; times in seconds of ``time.perf_counter``.

    ``sizes`` has a number for each input, by which batches are planned. Inputs of different ``group`` never share a
    batch. ``client`` is the address, or the value of CLIENT_HEADER, that is quarantined if an input fails.
    """

    items: Sequence[Any]
    sizes: Sequence[int]
    group: Hashable
    client: Hashable
    answers: list[Any]
    done: Any  # a future
    queued_at: float
    waiting: int  # inputs that are neither answered nor in the model
    left: int  # inputs that are not answered
    next: int = 0  # the first input that is in no batch yet
    gone: bool = False  # nobody waits for the answer
    started_at: float = 0.0  # of its first batch
    ended_at: float = 0.0  # of its last batch
    batch_size: int = 0


Entry = tuple[Call, int]
Batch = list[Entry]


def size_of(entry: Entry) -> int:
    """Return the size of an input of a batch."""
    call, index = entry
    return call.sizes[index]
