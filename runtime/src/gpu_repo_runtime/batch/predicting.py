"""The model over a part: sorted by length, halved when memory runs out, bad rows found one by one."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from .. import device
from ..inputs import InvalidInput
from .answers import Outcome
from .calling import Caller
from .exits import BadConfiguration, JobError
from .messages import one_line, say
from .ordering import Sorted
from .stop import Stop

# Rows of a batch where --batch-size is not set: of texts and other inputs, of objects of numbers, and of a table.
INPUTS, OBJECTS_OF_NUMBERS, TABLE_ROWS = 64, 4_096, 16_384


class BatchSize:
    """The size of a batch for texts of a length: the wanted one, less where memory has run out.

    Lengths count in powers of two. What does not fit for some length does not fit for longer texts either.
    """

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self._limits: dict[int, int] = {}

    def of(self, length: int) -> int:
        """Return how many texts that are up to `length` long go into a batch."""
        step = length.bit_length()
        return min([size for limit, size in self._limits.items() if limit <= step], default=self.wanted)

    def too_large(self, size: int, length: int) -> None:
        """Remember that `size` texts that are up to `length` long do not fit."""
        step = length.bit_length()
        self._limits[step] = min(self._limits.get(step, size), max(1, size // 2))

    @property
    def smallest(self) -> int:
        """Return the size that the longest texts are left with."""
        return min(self._limits.values(), default=self.wanted)


class Predictor:
    """Runs the model over parts on a device ("cpu" or "cuda")."""

    def __init__(self, caller: Caller, device_name: str, batch_size: int | None, names: list[str]) -> None:
        """batch_size: None for the usual one."""
        self.usual = TABLE_ROWS if caller.takes_tables else OBJECTS_OF_NUMBERS if caller.takes_numbers else INPUTS
        self.batch_size = BatchSize(batch_size or self.usual)
        self._caller = caller
        self._device = device_name
        self._told = False  # that a batch fails none of whose rows does
        try:
            self.schema = caller.schema(names)
        except BadConfiguration:
            raise
        except BaseException as error:
            if device.is_device_lost(error) or device.is_out_of_memory(error):
                raise JobError(f"the model fails on its own examples: {one_line(error)}") from error
            raise BadConfiguration(f"the model fails on its own examples: {one_line(error)}") from error

    def run(self, rows: Sorted, stop: Stop, done: Callable[[int], None]) -> Outcome:
        """Return what the model says of a part.

        done: called with the number of rows after each batch. Raises Stopped, JobError.
        """
        outcome = Outcome(rows, self.schema)
        count, position, start = len(rows.order), 0, time.monotonic()
        while position < count:
            if position:
                stop.between_batches((time.monotonic() - start) / position * (count - position))
            size = min(self.batch_size.of(int(rows.lengths[position])), count - position)
            self._predict(rows, range(position, position + size), outcome)
            position += size
            done(size)
        self._check_model(count, len(outcome.bad))
        return outcome

    def _predict(self, rows: Sorted, batch: range, outcome: Outcome) -> None:
        """Add the results of some of the texts; a batch that fails is halved until the texts that fail are alone."""
        inputs, refused = self._caller.inputs(rows.part, rows.some(batch.start, batch.stop))
        outcome.bad |= {batch[place]: reason for place, reason in refused.items()}
        left = [position for place, position in enumerate(batch) if place not in refused] if refused else batch
        if len(left):
            self._predict_inputs(rows, inputs, left, outcome)

    def _predict_inputs(self, rows: Sorted, inputs: Any, batch: Sequence[int], outcome: Outcome) -> None:
        memory = False
        try:
            # A copy: what the model does to its list must not reach the halves of a batch that fails.
            table, unfit = self._caller.answers(inputs[:])
        except BadConfiguration:
            raise
        except InvalidInput as error:
            reason = " ".join(str(error).split())
        # Ctrl-C raises nothing here, see stop.py: what comes is the model's own, sys.exit() too.
        except BaseException as error:
            if device.is_device_lost(error):
                raise JobError(f"the GPU is lost, only a new process can use it: {one_line(error)}") from error
            memory = device.is_out_of_memory(error)
            reason = f"memory ran out for this row alone: {one_line(error)}" if memory else one_line(error)
        else:
            outcome.tables.append(table)
            outcome.bad |= {batch[place]: reason for place, reason in unfit.items()}
            return
        # Outside of the except block, where the error no longer holds on to the memory of the failed batch.
        if memory:
            self.batch_size.too_large(len(batch), int(rows.lengths[batch[0]]))
            device.release(self._device)
        if len(batch) == 1:
            outcome.bad[batch[0]] = reason
            return
        middle, known = len(batch) // 2, len(outcome.bad)
        self._predict_inputs(rows, inputs[:middle], batch[:middle], outcome)
        self._predict_inputs(rows, inputs[middle:], batch[middle:], outcome)
        if not memory and known == len(outcome.bad) and not self._told:
            self._told = True
            say(f"predict fails on {len(batch)} rows, not on half of them; smaller batches take longer: {reason}")

    def _check_model(self, rows: int, bad: int) -> None:
        """Raise JobError when it is the model that fails and not the rows."""
        if rows and bad == rows:
            try:
                self._caller.answers_to_examples()
            except BaseException as error:
                raise JobError(f"the model fails on its own examples now: {one_line(error)}") from error
