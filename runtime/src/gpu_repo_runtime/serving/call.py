"""One request on its way through the model, and what the batcher asks of its owner."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from .errors import DeviceLost, ServiceError

Answer = Any


class Done(Protocol):
    """What is told how a call ends, in the event loop; a future is one."""

    def done(self) -> bool:
        """Whether nothing more is to be told."""
        ...

    def set_result(self, result: Any, /) -> None:
        """Take the answers."""

    def set_exception(self, exception: Any, /) -> None:
        """Take an error."""


def address_of(client: Hashable) -> Hashable:
    """Return where a connection comes from; a client that is known by a header, or not at all, stands for itself."""
    return client[0] if isinstance(client, tuple) else client


class Standing(IntEnum):
    """With whom a call shares batches."""

    SHARED = 0  # with everybody
    UNPROVEN = 1  # with others of which nothing is known, while somebody sends what makes the model fail
    FAILING = 2  # with others of its address, from which come many inputs that make the model fail
    ALONE = 3  # with nobody: its client, or an input of it, has made the model fail


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
    done: Any  # a future, or what was given in its place
    queued_at: float
    waiting: int  # items that are neither answered nor in the model now
    left: int  # items not yet answered
    next: int = 0  # the first item that is still in its lane
    gone: bool = False  # dropped: nobody waits for an answer
    hung_up: bool = False  # because its client has gone
    standing: Standing = Standing.SHARED

    @property
    def lane(self) -> Hashable:
        """Calls of one lane may share a batch."""
        if self.standing is Standing.FAILING:
            return self.group, self.standing, address_of(self.client)
        return self.group, self.standing

    started_at: float = 0.0
    batch_size: int = 0


Entry = tuple[Call, int]
Batch = list[Entry]


def size_of(entry: Entry) -> int:
    """The size of an item of a batch."""
    call, index = entry
    return call.sizes[index]


class Owner(Protocol):
    """Who owns the batcher. All but ``device_lost`` is called in the model's thread."""

    def predict(self, items: list[Any], group: Hashable) -> Sequence[Answer | ServiceError]:
        """One answer for each item, or the error that this item alone ends with.

        ``group`` is what ``submit`` was given for all of them.
        """
        ...

    def classify(self, error: BaseException, index: int | None) -> ServiceError:
        """What an error of ``predict`` means: DeviceLost ends all, OutOfMemory asks for a smaller batch.

        ``index`` is the item's place in its request when it was alone in the batch.
        """
        ...

    def too_large(self, index: int) -> ServiceError:
        """What a request ends with of which this item does not fit into memory, although others do."""
        ...

    def release(self) -> None:
        """Give cached device memory back."""

    def batch_done(self, batch: Batch, seconds: float) -> None:
        """A batch was answered in so many seconds."""

    def device_lost(self, error: DeviceLost) -> None:
        """Called once, in the event loop, when nothing can be answered any more."""
