"""One request on its way through the model, and what the batcher asks of its owner."""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .errors import DeviceLost, ServiceError

Answer = Any


@dataclass(slots=True, eq=False)
class Call:
    """The items of one request and what became of them; times in seconds of ``time.perf_counter``.

    ``sizes`` is what ordering goes by, one for each item. Items of different ``group`` never share a batch. ``client``
    is whose turn it is.
    """

    items: Sequence[Any]
    sizes: Sequence[int]
    group: Hashable
    client: Hashable
    answers: list[Answer]
    done: "asyncio.Future[list[Answer]]"
    queued_at: float
    waiting: int  # items not yet taken from the queue; 0 as well when the call was dropped
    left: int  # items not yet answered
    started_at: float = 0.0
    batch_size: int = 0


Batch = list[tuple[Call, int]]


class Owner(Protocol):
    """Who owns the batcher. All but ``device_lost`` is called in the model's thread."""

    def predict(self, items: list[Any], group: Hashable) -> Sequence[Answer | ServiceError]:
        """One answer for each item, or the error that this item alone ends with.

        ``group`` is what ``submit`` was given for all of them.
        """

    def judge(self, error: BaseException, index: int | None) -> ServiceError:
        """What an error of ``predict`` means: DeviceLost ends all, OutOfMemory asks for a smaller batch.

        ``index`` is the item's place in its request when it was alone in the batch.
        """

    def release(self) -> None:
        """Give cached device memory back."""

    def batch_done(self, batch: Batch, seconds: float) -> None:
        """A batch was answered in so many seconds."""

    def device_lost(self, error: DeviceLost) -> None:
        """Called once, in the event loop, when nothing can be answered any more."""
