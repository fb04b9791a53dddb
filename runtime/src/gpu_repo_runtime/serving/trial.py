"""What happens to one batch: the model's call, and the search for what made it fail."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .call import Answer, Batch, Call, Owner, Standing, size_of
from .errors import DeviceLost, OutOfMemory, PredictionFailed, ServiceError
from .limits import Limit, by_size, is_uneven
from .suspicion import Suspicion

log = logging.getLogger(__name__)


class Desk(Protocol):
    """Where a trial takes its items from and leaves what became of them; all is called in the model's thread."""

    def enter(self, batch: Batch) -> tuple[Batch, list[Any]]:
        """Return what of a batch somebody still waits for, and its items; they are in the model from now on."""
        ...

    def leave(self) -> None:
        """A call has failed: its items are not in the model any more, and not answered either."""

    def answer(self, batch: Batch, answers: Sequence[Answer], started: float, seconds: float) -> None:
        """A batch was answered."""

    def fail(self, call: Call, error: ServiceError) -> None:
        """A call ends with an error."""

    def again(self, batch: Batch) -> None:
        """Nothing is known of these: they go with the next batch."""

    def search(self, batch: Batch, *, first: bool) -> None:
        """One of these makes the model fail: they are to come back to ``search``, where ``first``, before others."""

    def lose(self, error: DeviceLost) -> None:
        """Nothing can be answered any more."""


class Trial:
    """Runs batches until each item has its answer or its error."""

    def __init__(self, owner: Owner, desk: Desk, limit: Limit, clock: Callable[[], float] = time.perf_counter) -> None:
        self._owner, self._desk, self._limit, self._clock = owner, desk, limit, clock
        self.suspicion = Suspicion(clock)
        self._too_large: list[tuple[Call, int, ServiceError]] = []
        self._largest_answered, self._answered, self._short_of_memory = 0, False, False

    def run(self, batch: Batch) -> None:
        """Answer a batch, or what of it can be answered."""
        for piece in self._limit.pieces(batch):
            self._begin()
            self._run(piece)
            self._end()

    def search(self, batch: Batch) -> None:
        """Halve a batch in which one item makes the model fail; what is left of it comes back for the next call.

        What is found with it is not called again: of two halves the first is tried. When it is answered, the fault is
        in the second one; when it fails, nothing is known of the second one, which goes with the next batch.
        """
        if (rest := self._explained(batch)) is not None:
            return self._desk.again(rest)
        self._begin()
        cut = min(len(batch) // 2, self.suspicion.largest_batch(batch[0][0]) or len(batch))
        first, second = batch[:cut], batch[cut:]
        error = self._call(first or second)
        if isinstance(error, OutOfMemory):
            self._shrink(first or second, error)
            error = None
        if error is None and first:
            self._desk.search(second, first=True)
        elif error is not None and not isinstance(error, DeviceLost):
            if first:
                self._desk.again(second)
            self._failed(first or second, error, first=True)
        self._end()

    def _failed(self, batch: Batch, error: ServiceError, *, first: bool) -> None:
        """Take in that the model failed on a batch: a single item is found, of others one is searched for."""
        if len(batch) == 1:
            return self._desk.fail(batch[0][0], error)
        if (rest := self._explained(batch)) is not None:
            return self._desk.again(rest)
        proven: Batch = []
        doubtful: Batch = []
        for entry in batch:
            (proven if self.suspicion.trust.proven(entry[0].client) else doubtful).append(entry)
        if proven and doubtful:
            self._desk.again(proven)
        self._desk.search(doubtful or proven, first=first)

    def _explained(self, batch: Batch) -> Batch | None:
        """Return who of a batch that fails is to be called again, where some of it are likely to be the cause.

        They have hung up meanwhile, or come from where many inputs fail, and are from now on called apart.
        """
        rest = [entry for entry in batch if not entry[0].gone]
        gone = {call for call, _ in batch if call.hung_up}
        for call in gone:
            self.suspicion.hung_up(call)
            call.hung_up = False
        moved = any(
            len(call.sizes) == 1 and call.standing < Standing.FAILING <= self.suspicion.of(call) for call, _ in rest
        )
        return rest if gone or moved else None

    def _begin(self) -> None:
        self._answered = False

    def _end(self) -> None:
        if self._too_large or self._short_of_memory:
            self._judge_too_large()

    def _run(self, batch: Batch) -> bool:
        """Return whether an item that is too large alone was found."""
        error = self._call(batch)
        if error is None or isinstance(error, DeviceLost):
            return False
        if isinstance(error, OutOfMemory):
            return self._shrink(batch, error)
        self._failed(batch, error, first=False)
        return False

    def _call(self, batch: Batch) -> ServiceError | None:
        batch, items = self._desk.enter(batch)
        if not batch:
            return None
        started, error = self._clock(), None
        answers: Sequence[Any] = ()
        try:
            answers = self._owner.predict(items, batch[0][0].group)
            if len(answers) != len(items):
                raise ValueError(f"predict returned {len(answers)} answers for {len(items)} inputs")
            answers = list(answers)
        except BaseException as caught:
            error = self._judge(caught, batch[0][1] if len(batch) == 1 else None)
        # From here on no traceback holds the failed batch's memory.
        if error is None:
            self._desk.answer(batch, answers, started, self._clock() - started)
            largest = max(map(size_of, batch))
            self._answered, self._largest_answered = True, max(self._largest_answered, largest)
            self._limit.fitted(len(batch), largest)
            self.suspicion.answered(batch, items)
            return None
        self._desk.leave()
        if isinstance(error, DeviceLost):
            self._desk.lose(error)
        elif isinstance(error, OutOfMemory):
            self._owner.release()
        elif len(batch) == 1:
            self.suspicion.failed(batch[0][0], items[0])
        return error

    def _judge(self, error: BaseException, index: int | None) -> ServiceError:
        try:
            return self._owner.classify(error, index)
        except BaseException:  # an error whose words cannot be had
            log.exception("the model raised %s, about which nothing can be said", type(error).__name__)
            reason = [{"field": f"instances.{index}", "reason": f"the model raised {type(error).__name__}"}]
            return PredictionFailed(f"the model raised {type(error).__name__}", errors=reason)

    def _shrink(self, batch: Batch, error: ServiceError) -> bool:
        """Find what fits; return whether an item that is too large alone was found.

        Where one is much larger than the others, the others are tried together first.
        """
        if len(batch) == 1:
            self._too_large.append((*batch[0], error))
            return True
        batch = by_size(batch)
        cut = len(batch) - 1 if is_uneven(batch) else len(batch) // 2
        found, answered, shortages = False, batch[:0], self._limit.shortages
        for part in (batch[:cut], batch[cut:]):
            pieces = [part] if self._limit.shortages == shortages else self._limit.pieces(part)
            for piece in pieces:
                before = len(self._too_large), self._limit.shortages
                found = self._run(piece) or found
                if before == (len(self._too_large), self._limit.shortages) and len(piece) > len(answered):
                    answered = piece
        if not found and self._limit.shortages == shortages:
            self._limit.short(batch, answered)
        return found

    def _judge_too_large(self) -> None:
        """Tell an input that is too large from a device on which nothing fits now."""
        tried, self._too_large = self._too_large, []
        if len(tried) > 1 and self._answered:  # there may have been no room for any when these were called
            for call, index, _ in tried:
                self._run([(call, index)])
            tried, self._too_large = self._too_large, []
        for call, index, error in tried:
            fits_else = call.gone or call.sizes[index] <= self._largest_answered
            if not self._answered and fits_else and (len(tried) > 1 or self._short_of_memory):
                self._desk.fail(call, error)
                continue
            self._desk.fail(call, self._owner.too_large(index))
            self.suspicion.too_large(call, index)
        self._short_of_memory = bool(tried) and not self._answered
