"""The loop of a training, which can be stopped at any step and resumes as if it had not been."""

import math
import signal
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from .. import device
from ..batch.exits import BadConfiguration, Stopped
from ..batch.messages import one_line, say
from ..batch.output import TEMPORARY, Output
from ..batch.plan import code_fingerprint
from ..batch.publishing import to_json
from ..batch.stop import Stop
from .data import examples_of, sample_of, seed_of, shuffled
from .engine import Engine, Recipe
from .results import as_csv, leave_weights

CHECKPOINT = "checkpoint"
RESULT = "result.json"
_SMALLER = "try a smaller --learning-rate and another --output; a checkpoint from before it stays"
# What a restart may change without becoming another training.
_CHANGEABLE = ("package", "output", "epochs", "patience", "checkpoint_steps", "device", "precision", "parallel",
               "gradient_checkpointing", "loaders")  # fmt: skip
# A restart may take other values of these as long as their product is the same.
_STEP = ("batch_size", "accumulate", "world")


@dataclass(frozen=True, kw_only=True)
class TrainOptions(Recipe):
    """The options of `train`; see its --help for each."""

    package: str
    output: str
    epochs: int
    batch_size: int
    accumulate: int
    patience: int
    checkpoint_steps: int


@dataclass
class Position:
    """Where the training is: the finished epochs, the steps done of the next one, and the best epoch so far.

    epochs: one dict each of epoch, steps, training_loss, loss, the task's metrics, and seconds.
    """

    epochs: list[dict[str, Any]]
    step: int = 0
    best: int = 0
    seconds: float = 0.0


class Training:
    """Trains a Task. One step is `accumulate` batches on each process, then one change of the weights."""

    def __init__(self, task: Any, engine: Engine, options: TrainOptions, store: Output) -> None:
        self._engine, self._options, self._store = engine, options, store
        self._examples, self._checks = examples_of(task, options.seed)
        self._each = options.batch_size * options.accumulate
        self._steps = len(self._examples) // (self._each * engine.world)
        if not self._steps:
            raise BadConfiguration(
                f"{len(self._examples)} examples do not fill one step of {self._each * engine.world}: "
                "take a smaller --batch-size or --accumulate"
            )
        self._position = Position([])
        # A schedule ends with the last step, so other --epochs are another training.
        free = [name for name in _CHANGEABLE if name != "epochs" or not engine.schedule(self._steps * options.epochs)]
        # What makes this training another than the next.
        self.settings = {key: value for key, value in asdict(options).items() if key not in free} | {
            "world": engine.world,
            "precision": engine.precision,
            "examples": len(self._examples),
            "data": "" if engine.rank else sample_of(engine.collate, self._examples, self._checks),
        }
        self._code = code_fingerprint(options.package)

    def resume(self) -> None:
        """Load the checkpoint, if there is one. Raises BadConfiguration when it is of another training."""
        content = self._store.read(CHECKPOINT + self._engine.suffix)
        if content is None:
            return
        name = f"{self._options.output}/{CHECKPOINT}{self._engine.suffix}"
        try:
            extra = self._engine.restore(content)
            before = dict(extra["settings"])
            self._position = Position(**extra["position"])
        except Exception as error:
            if device.is_device_lost(error) or device.is_out_of_memory(error):
                raise
            raise BadConfiguration(
                f"{name} is cut, or not of this task's network ({one_line(error)}): bring back a whole one, take "
                "another --output, or delete it to begin anew"
            ) from error
        self._check_same(before)
        best = "best" + self._engine.suffix
        if self._position.best and self._engine.rank == 0 and not self._engine.is_whole(self._store.root / best):
            raise BadConfiguration(
                f"{self._options.output}/{best} is gone or cut: bring back a whole one, take another --output, or "
                "delete this one to begin anew"
            )
        say(f"going on: epoch {len(self._position.epochs) + 1}, step {self._position.step} of {self._steps}")
        if extra.get("code", self._code) != self._code:
            self._say("the code is not what it was in the steps before; the weights will be of both")

    def _check_same(self, before: dict[str, Any]) -> None:
        changed = differences(before, self.settings)
        if changed:
            raise BadConfiguration(
                f"the checkpoint in {self._options.output} is of another training: {'; '.join(changed)}. Take another "
                "--output, or delete this one. --accumulate, --batch-size and processes may differ if a step has as "
                "many examples as before"
            )

    def run(self, stop: Stop, log: Callable[[dict[str, Any]], None]) -> None:
        """Train until the last epoch or until nothing gets better. Raises Stopped, with a checkpoint written.

        log: gets each epoch once its checkpoint is written.
        """
        while len(self._position.epochs) < self._options.epochs and not self._stale():
            if self._engine.rank == 0:
                # Of a shorter training in the same folder.
                self._store.delete(RESULT)
            self._epoch(stop)
            log(self._position.epochs[-1])

    def rehearse(self) -> None:
        """Before the first step, do one, validate a batch and go back: a mistake there does not cost an epoch."""
        if self._position.epochs or self._position.step:
            return
        if self._engine.world > 1:
            # Only the first process has the whole state to go back to.
            self._validate(1)
            return
        before = self._engine.dump({})
        with closing(self._engine.load(self._examples, self._batches("rehearsal", self._steps - 1), "")) as loaded:
            self._engine.step(list(loaded), 0)
        self._validate(1)
        self._engine.weights()
        self._engine.restore(before)

    def _stale(self) -> bool:
        done = len(self._position.epochs)
        return bool(self._options.patience) and done - self._position.best >= self._options.patience

    def _epoch(self, stop: Stop) -> None:
        position, number = self._position, len(self._position.epochs) + 1
        start = time.monotonic() - position.seconds
        seed = f"{self._options.seed}-{number}"
        with closing(self._engine.load(self._examples, self._batches(seed, position.step), seed)) as loaded:
            while position.step < self._steps:
                batches = list(islice(loaded, self._options.accumulate))
                self._engine.step(batches, seed_of(seed, position.step, self._engine.rank))
                position.step += 1
                position.seconds = time.monotonic() - start
                if self._engine.any(bool(stop.signal)):
                    self._save()
                    raise Stopped(stop.signal or signal.SIGTERM)
                if position.step % self._options.checkpoint_steps == 0 and position.step < self._steps:
                    self._save()
        training_loss = self._engine.take_loss() / self._steps
        found = self._validate()
        seconds = round(time.monotonic() - start, 3)
        row = {"epoch": number, "steps": self._steps, "training_loss": training_loss, **found, "seconds": seconds}
        position.epochs.append(row)
        position.step, position.seconds = 0, 0.0
        self._say(f"epoch {number}: loss {training_loss:.4f}, validation {_listed(found)}, {seconds:.1f} s")
        if not math.isfinite(found["loss"]) or math.isnan(training_loss):
            raise BadConfiguration(f"the loss of epoch {number} is not a number: {_SMALLER}")
        better = position.best == 0 or found["loss"] < position.epochs[position.best - 1]["loss"]
        position.best = number if better else position.best
        self._save(better)

    def _say(self, text: str) -> None:
        if self._engine.rank == 0:
            say(text)

    def _batches(self, seed: str, first: int) -> list[list[int]]:
        """Return the indices of this process's batches from the step `first` on."""
        order = shuffled(len(self._examples), seed)
        size, world = self._options.batch_size, self._engine.world
        begins = [(step * world + self._engine.rank) * self._each for step in range(first, self._steps)]
        return [order[begin + at : begin + at + size] for begin in begins for at in range(0, self._each, size)]

    def _validate(self, most: int | None = None) -> dict[str, float]:
        """Return loss and metrics over as many batches on each process, which FSDP needs.

        A process without examples left computes one that does not count. most: the first batches alone.
        """
        own = list(range(self._engine.rank, len(self._checks), self._engine.world))
        starts = range(0, -(-len(self._checks) // self._engine.world), self._options.batch_size)[:most]
        batches = [own[at : at + self._options.batch_size] for at in starts]
        loaded = self._engine.load(self._checks, [one or [0] for one in batches], f"{self._options.seed}-validation")
        with closing(loaded):
            return self._engine.evaluate(zip(map(len, batches), loaded, strict=True))

    def _save(self, better: bool = False) -> None:
        """Write the checkpoint, and at the end of an epoch what people look at; the first process writes for all.

        Raises BadConfiguration, and leaves the last checkpoint, where a loss since the epoch's begin is not a number.
        """
        position = asdict(self._position)
        if self._engine.is_lost():
            place = f"epoch {len(self._position.epochs) + 1}, by step {self._position.step} of {self._steps}"
            raise BadConfiguration(f"the loss is not a number in {place}: {_SMALLER}")
        content = self._engine.dump({"settings": self.settings, "position": position, "code": self._code})
        weights = self._engine.weights() if better else b""
        if self._engine.rank:
            return
        if better:
            self._store.write("best" + self._engine.suffix, weights)
        if not self._position.step:
            self._store.write("metrics.csv", as_csv(self._position.epochs))
        self._store.write(CHECKPOINT + self._engine.suffix, content)

    def finish(self) -> None:
        """Write the result's summary, last: a training with it is done."""
        if self._engine.rank:
            return
        best = self._position.epochs[self._position.best - 1]
        summary = {"best": best, "epochs": len(self._position.epochs), "settings": self.settings}
        leave_weights(self._store, "best" + self._engine.suffix, self._options.package.strip("_"))
        say(f"a service takes them from {self._options.output}/weights, see scripts/weights push --help")
        self._store.write(RESULT, to_json(summary))
        self._store.tidy(TEMPORARY)
        values = {name: value for name, value in best.items() if name not in ("epoch", "steps", "seconds")}
        say(f"done: epoch {best['epoch']} is the best, {_listed(values)}")


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the settings that make a training another one than that of before, as texts."""
    names = [name for name in before if now.get(name) != before[name]]
    if math.prod(before[name] for name in _STEP) == math.prod(now[name] for name in _STEP):
        names = [name for name in names if name not in _STEP]
    # Only the first process has the sample, and none where examples differ each time.
    if not (before.get("data") and now.get("data")):
        names = [name for name in names if name != "data"]
    texts = {name: f"{name} was {before[name]}, now {now.get(name)}" for name in names}
    return [*(texts | ({"data": "the examples are others"} if "data" in texts else {})).values()]


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in values.items())
