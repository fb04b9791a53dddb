"""One request on its way through the model, and what the batcher asks of its owner."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .errors import DeviceLost, ServiceError

Answer = dict[str, Any]


@dataclass(slots=True, eq=False)
class Call:
    """The texts of one request and what became of them; times in seconds of ``time.perf_counter``."""

    texts: Sequence[str]
    answers: list[Answer]
    done: "asyncio.Future[list[Answer]]"
    queued_at: float
    waiting: int  # texts not yet taken from the queue; 0 as well when the call was dropped
    left: int  # texts not yet answered
    started_at: float = 0.0
    batch_size: int = 0


Batch = list[tuple[Call, int]]


class Owner(Protocol):
    """Who owns the batcher. All but ``device_lost`` is called in the model's thread."""

    def predict(self, texts: list[str]) -> list[Answer]:
        """One answer for each text."""

    def judge(self, error: BaseException, index: int | None) -> ServiceError:
        """What an error of ``predict`` means: DeviceLost ends all, OutOfMemory halves the limit for good.

        ``index`` is the text's place in its request when it was alone in the batch.
        """

    def release(self) -> None:
        """Give cached device memory back."""

    def batch_done(self, batch: Batch, seconds: float) -> None:
        """A batch was answered in so many seconds."""

    def device_lost(self, error: DeviceLost) -> None:
        """Called once, in the event loop, when nothing can be answered any more."""
