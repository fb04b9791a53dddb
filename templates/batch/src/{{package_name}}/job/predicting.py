"""The model over a part: sorted by length, halved when memory runs out, bad rows found one by one."""

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .. import device
from .exits import BadConfiguration, JobError
from .parts import ROW, TEXT, BadRow, Part
from .results import Answers, schema_of, to_batch
from .stop import Stop


class Model(Protocol):
    """What the job needs of src/<package>/model.py."""

    examples: Any

    def predict(self, batch: list[str]) -> Answers:
        """Return a dict for each text."""


class BatchSize:
    """The size of a batch for texts of a length: the wanted one, less where memory has run out.

    Lengths count in powers of two. What does not fit for some length does not fit for longer texts either.
    """

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self._limits: dict[int, int] = {}

    def of(self, length: int) -> int:
        """Return how many texts of up to `length` bytes go into a batch."""
        step = length.bit_length()
        return min([size for limit, size in self._limits.items() if limit <= step], default=self.wanted)

    def too_large(self, size: int, length: int) -> None:
        """Remember that `size` texts of up to `length` bytes do not fit."""
        step = length.bit_length()
        self._limits[step] = min(self._limits.get(step, size), max(1, size // 2))

    @property
    def smallest(self) -> int:
        """Return the size that the longest texts are left with."""
        return min(self._limits.values(), default=self.wanted)


class Predictor:
    """Runs the model over parts on a device ("cpu" or "cuda")."""

    def __init__(self, model: Model, device_name: str, batch_size: int, names: list[str]) -> None:
        self.batch_size = BatchSize(batch_size)
        self._model = model
        self._device = device_name
        try:
            answers = model.predict(list(model.examples))
        except Exception as error:
            if device.is_device_lost(error) or device.is_out_of_memory(error):
                raise JobError(f"the model fails on its own examples: {_one_line(error)}") from error
            raise BadConfiguration(f"the model fails on its own examples: {_one_line(error)}") from error
        self.schema = schema_of(answers, names)
        to_batch(answers, len(model.examples), self.schema)

    def run(self, part: Part, stop: Stop, done: Callable[[int], None]) -> tuple[pa.Table, list[BadRow]]:
        """Return the results of a part, in the order of the input, and its bad rows.

        The table has the columns of the part without the text for the model, then those of the model.
        done: called with the number of rows after each batch. Raises Stopped, JobError.
        """
        texts = part.table[TEXT].combine_chunks()
        lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False)
        # The longest first: if memory does not suffice it shows at once. Stable, so that each run does the same.
        order = np.argsort(-lengths, kind="stable")
        texts, lengths = texts.take(pa.array(order)), lengths[order]
        batches: list[pa.RecordBatch] = []
        bad: dict[int, str] = {}
        position, start = 0, time.monotonic()
        while position < len(texts):
            if position:
                stop.between_batches((time.monotonic() - start) / position * (len(texts) - position))
            size = self.batch_size.of(int(lengths[position]))
            batch = texts.slice(position, size).to_pylist()
            self._predict(batch, position, batches, bad)
            position += len(batch)
            done(len(batch))
        self._check_model(len(texts), len(bad))
        return self._in_order(part, order, batches, bad)

    def _predict(self, texts: list[str], position: int, batches: list[pa.RecordBatch], bad: dict[int, str]) -> None:
        """Add the results of the texts; a batch that fails is halved until the texts that fail are alone."""
        memory = False
        try:
            batches.append(to_batch(self._model.predict(texts), len(texts), self.schema))
            return
        except JobError:
            raise
        except Exception as error:
            if device.is_device_lost(error):
                raise JobError(f"the GPU is lost, only a new process can use it: {_one_line(error)}") from error
            memory = device.is_out_of_memory(error)
            reason = f"memory ran out for this row alone: {_one_line(error)}" if memory else _one_line(error)
        # Outside of the except block, where the error no longer holds on to the memory of the failed batch.
        if memory:
            self.batch_size.too_large(len(texts), max(len(text.encode()) for text in texts))
            device.release(self._device)
        if len(texts) == 1:
            bad[position] = reason
            return
        middle = len(texts) // 2
        self._predict(texts[:middle], position, batches, bad)
        self._predict(texts[middle:], position + middle, batches, bad)

    def _check_model(self, rows: int, bad: int) -> None:
        """Raise JobError when it is the model that fails and not the rows."""
        if rows and bad == rows:
            try:
                self._model.predict(list(self._model.examples))
            except Exception as error:
                raise JobError(f"the model fails on its own examples now: {_one_line(error)}") from error

    def _in_order(
        self, part: Part, order: np.ndarray, batches: list[pa.RecordBatch], bad: dict[int, str]
    ) -> tuple[pa.Table, list[BadRow]]:
        results = pa.Table.from_batches(batches, self.schema)
        table = part.table.drop_columns([TEXT])
        failed = np.fromiter(bad, dtype=np.int64, count=len(bad))
        rows = table[ROW].take(pa.array(order[failed])).to_pylist()
        good = np.delete(order, failed)
        # Position of each input row among the results: the inverse of the sort, over the good rows.
        back = np.argsort(good, kind="stable")
        table = table.take(pa.array(good[back]))
        for field, column in zip(self.schema, results.take(pa.array(back)).columns, strict=True):
            table = table.append_column(field, column)
        return table, [BadRow(row, reason) for row, reason in zip(rows, bad.values(), strict=True)]


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
