"""Training that can be stopped at any step and goes on as if it had not been."""

import fcntl
import hashlib
import importlib
import math
import os
import random
import signal
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .. import device
from ..batch.ahead import ahead
from ..batch.exits import DONE, MISTAKES, BadConfiguration, JobError, Stopped, is_mistake
from ..batch.messages import one_line, say
from ..batch.output import TEMPORARY, Output
from ..batch.plan import code_fingerprint
from ..batch.publishing import to_json
from ..batch.stop import Stop
from ..weights import LOCK, File, Lock, Weights
from .engine import Engine, Recipe, Task, open_engine
from .history import Epoch, as_csv, as_png, read_epochs
from .sameness import differences, is_whole, sample_of
from .tracking import tracked

CHECKPOINT = "checkpoint"
WEIGHTS = "weights"
RESULT = "result.json"
# For the step at work, and to write its checkpoint, until the process is ended.
GRACE = 100.0


@dataclass(frozen=True)
class TrainOptions:
    """The options of `train`; see its --help for each."""

    package: str
    output: str
    epochs: int
    batch_size: int
    accumulate: int
    learning_rate: float
    clip: float
    precision: str
    patience: int
    checkpoint_steps: int
    seed: int
    device: str
    parallel: str
    gradient_checkpointing: bool


@dataclass
class Position:
    """Where the training is: the steps done of the epoch that comes next in `epochs`, and the best one so far."""

    epochs: list[Epoch]
    step: int = 0
    best: int = 0
    seconds: float = 0.0


class Training:
    """Trains a Task. One step is `accumulate` batches on each process, then one change of the weights."""

    def __init__(self, task: Task, engine: Engine, options: TrainOptions, store: Output) -> None:
        self._engine, self._options, self._store = engine, options, store
        self._examples, self._checks = task.data()
        if not self._checks:
            raise BadConfiguration("the task's data has no examples to check with")
        self._each = options.batch_size * options.accumulate
        self._steps = len(self._examples) // (self._each * engine.world)
        if not self._steps:
            raise BadConfiguration(
                f"{len(self._examples)} examples do not fill one step of {self._each * engine.world}: "
                "take a smaller --batch-size or --accumulate"
            )
        self._position = Position([])
        self._settings = {key: value for key, value in asdict(options).items() if key not in _CHANGEABLE} | {
            "world": engine.world,
            "precision": engine.precision,
            "examples": len(self._examples),
            "data": "" if engine.rank else sample_of(task, self._examples, self._checks),
        }
        self._code = code_fingerprint(options.package)

    def resume(self) -> None:
        """Go on from the checkpoint, if there is one. Raises BadConfiguration when it is of another training."""
        content = self._store.read(CHECKPOINT + self._engine.suffix)
        if content is None:
            return
        name = f"{self._options.output}/{CHECKPOINT}{self._engine.suffix}"
        try:
            extra = self._engine.restore(content)
            before = dict(extra["settings"])
        except Exception as error:
            if device.is_device_lost(error) or device.is_out_of_memory(error):
                raise
            raise BadConfiguration(
                f"{name} is cut, or not of this task's network ({one_line(error)}): bring back a whole one, take "
                "another --output, or delete it to begin anew"
            ) from error
        changed = differences(before, self._settings)
        if changed:
            raise BadConfiguration(
                f"the checkpoint in {self._options.output} is of another training: {'; '.join(changed)}. "
                + (
                    "Take an --accumulate or --batch-size with as many examples in a step as before, or take "
                    if any(one.startswith("world ") for one in changed)
                    else "Take "
                )
                + "another --output, or delete this one"
            )
        position = extra["position"]
        self._position = Position(**{**position, "epochs": read_epochs(position["epochs"])})
        best = "best" + self._engine.suffix
        if self._position.best and self._engine.rank == 0 and not is_whole(self._store.root / best):
            raise BadConfiguration(
                f"{self._options.output}/{best} is gone or cut: bring back a whole one, take another --output, or "
                "delete this one to begin anew"
            )
        say(f"going on: epoch {len(self._position.epochs) + 1}, step {self._position.step} of {self._steps}")
        if extra.get("code", self._code) != self._code:
            self._say("the code is not what it was in the steps before; the weights will be of both")

    @property
    def settings(self) -> dict[str, Any]:
        """Return what makes this training another than the next."""
        return self._settings

    def run(self, stop: Stop, log: Callable[[Epoch], None]) -> None:
        """Train until the last epoch or until nothing gets better. Raises Stopped, with a checkpoint written.

        log: takes each epoch once its checkpoint is written.
        """
        while len(self._position.epochs) < self._options.epochs and not self._stale():
            if self._engine.rank == 0:
                # Of a shorter training, where one was here.
                self._store.delete(RESULT)
            self._epoch(stop)
            log(self._position.epochs[-1])

    def _stale(self) -> bool:
        done = len(self._position.epochs)
        return bool(self._options.patience) and done - self._position.best >= self._options.patience

    def _epoch(self, stop: Stop) -> None:
        position, number = self._position, len(self._position.epochs) + 1
        start = time.monotonic() - position.seconds
        with closing(ahead(self._batches(number, position.step), 4)) as steps:
            for batches in steps:
                self._engine.step(batches, self._seed(number, position.step))
                position.step += 1
                position.seconds = time.monotonic() - start
                if self._engine.any(bool(stop.signal)):
                    self._save()
                    raise Stopped(stop.signal or signal.SIGTERM)
                if position.step % self._options.checkpoint_steps == 0 and position.step < self._steps:
                    self._save()
        training_loss = self._engine.take_loss() / self._steps
        with closing(ahead(self._check_batches(), 4)) as checks:
            loss, accuracy = self._engine.evaluate(checks)
        seconds = round(time.monotonic() - start, 3)
        position.epochs.append(Epoch(number, self._steps, training_loss, loss, accuracy, seconds))
        position.step, position.seconds = 0, 0.0
        self._say(
            f"epoch {number}: loss {training_loss:.4f}, validation {loss:.4f}, right {accuracy:.1%}, {seconds:.1f} s"
        )
        if not math.isfinite(loss) or math.isnan(training_loss):
            raise BadConfiguration(f"the loss of epoch {number} is not a number: {_SMALLER}")
        better = position.best == 0 or loss < position.epochs[position.best - 1].loss
        position.best = number if better else position.best
        self._save(better)

    def _seed(self, epoch: int, step: int) -> int:
        """Return what dropout and the like begin with in this step: so nothing random has to be kept."""
        return zlib.crc32(f"{self._options.seed}-{epoch}-{step}-{self._engine.rank}".encode())

    def _say(self, text: str) -> None:
        if self._engine.rank == 0:
            say(text)

    def _batches(self, epoch: int, first: int) -> Iterator[list[Any]]:
        """Yield the batches of this process for each step, in an order that only seed and epoch decide."""
        order = list(range(len(self._examples)))
        random.Random(f"{self._options.seed}-{epoch}").shuffle(order)
        size, world = self._options.batch_size, self._engine.world
        for step in range(first, self._steps):
            begin = (step * world + self._engine.rank) * self._each
            own = [self._examples[index] for index in order[begin : begin + self._each]]
            yield [self._engine.collate(own[at : at + size]) for at in range(0, self._each, size)]

    def _check_batches(self) -> Iterator[tuple[int, Any]]:
        """Yield as many batches on each process, which FSDP needs: those without examples of their own have size 0."""
        own = self._checks[self._engine.rank :: self._engine.world]
        most = len(self._checks[:: self._engine.world])
        for at in range(0, most, self._options.batch_size):
            batch = own[at : at + self._options.batch_size]
            yield len(batch), self._engine.collate(list(batch or self._checks[:1]))

    def _save(self, better: bool = False) -> None:
        """Write the checkpoint, and at the end of an epoch what people look at; the first process writes for all.

        Raises BadConfiguration, and leaves the last checkpoint, where a loss since the epoch's begin is not a number.
        """
        position = asdict(self._position)
        if self._engine.is_lost():
            place = f"epoch {len(self._position.epochs) + 1}, by step {self._position.step} of {self._steps}"
            raise BadConfiguration(f"the loss is not a number in {place}: {_SMALLER}")
        content = self._engine.dump({"settings": self._settings, "position": position, "code": self._code})
        weights = self._engine.weights() if better else b""
        if self._engine.rank:
            return
        if better:
            self._store.write("best" + self._engine.suffix, weights)
        if not self._position.step:
            self._store.write("metrics.csv", as_csv(self._position.epochs))
            self._store.write("loss.png", as_png(self._position.epochs, self._position.best))
        self._store.write(CHECKPOINT + self._engine.suffix, content)

    def finish(self) -> None:
        """Write the result's summary; its presence tells that the training is done."""
        if self._engine.rank:
            return
        best = self._position.epochs[self._position.best - 1]
        summary = {"best": asdict(best), "epochs": len(self._position.epochs), "settings": self._settings}
        self._leave_weights()
        self._store.write(RESULT, to_json(summary))
        self._store.tidy(TEMPORARY)
        say(f"done: epoch {best.epoch} is the best, loss {best.loss:.4f}, right {best.accuracy:.1%}")

    def _leave_weights(self) -> None:
        """Put the best weights, with their lock, where scripts/weights and a service take them from."""
        name, owner = "best" + self._engine.suffix, self._options.package.strip("_")
        content = self._store.read(name) or b""
        file = File(name, len(content), hashlib.sha256(content).hexdigest())
        lock = Lock((Weights(owner, "scripts/train", "", (file,)),))
        self._store.write(f"{WEIGHTS}/{owner}/{name}", content)
        self._store.write(f"{WEIGHTS}/{LOCK}", lock.text().encode())
        say(f"a service takes them from {self._options.output}/{WEIGHTS}, see scripts/weights push --help")


_SMALLER = "try a smaller --learning-rate and another --output; a checkpoint from before it stays"
# What a restart may change without becoming another training.
_CHANGEABLE = ("package", "output", "epochs", "patience", "checkpoint_steps", "device", "precision",
               "parallel", "gradient_checkpointing")  # fmt: skip


def _load_task(package: str) -> Task:
    """Return the owner's task. Raises BadConfiguration when it cannot be imported."""
    try:
        task: Task = importlib.import_module(f"{package}.task").Task()
    except (ImportError, SyntaxError, *MISTAKES) as error:
        raise BadConfiguration(f"src/{package}/task.py cannot be used: {error}") from error
    return task


def train_job(options: TrainOptions) -> int:
    """Train and return the exit code 0. Raises JobError."""
    if "://" in options.output:
        raise BadConfiguration(f"--output {options.output}: a training writes to a folder on a disk")
    try:
        return _train(options)
    except Exception as error:
        if not is_mistake(error):
            raise
        traceback.print_exc()
        raise BadConfiguration(f"the task fails (above): {one_line(error)}") from error


def _folder(output: str) -> Output:
    try:
        Path(output).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise BadConfiguration(f"the output {output} is a file; it has to be a folder") from None
    return Output(output)


@contextmanager
def _alone(output: str) -> Iterator[None]:
    """Keep other trainings of this folder away until the end of this one. Raises JobError when one is there.

    Where the disk has no locks, as some in a network, nobody is kept away.
    """
    folder = os.open(output, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(folder)
        raise JobError(f"another training is at work in {output}: wait for its end, or take another --output") from None
    except OSError:
        pass
    try:
        yield
    finally:
        os.close(folder)


def _train(options: TrainOptions) -> int:
    with Stop(GRACE) as stop:
        with stop.at_once("the training was prepared"):
            task = _load_task(options.package)
            try:
                chosen = device.choose(options.device)
            except device.DeviceError as error:
                raise JobError(str(error)) from error
            say(device.reason(chosen))
            store = _folder(options.output)
            recipe = Recipe(
                chosen,
                options.precision,
                options.learning_rate,
                options.clip,
                options.seed,
                options.parallel,
                options.gradient_checkpointing,
            )
            engine = open_engine(task, recipe)
        try:
            with _alone(options.output) if engine.rank == 0 else nullcontext():
                with stop.at_once("the training was prepared"):
                    training = Training(task, engine, options, store)
                    training.resume()
                store.prepare(for_parts=False)
                with tracked(store.root, options.package, training.settings, first=engine.rank == 0) as log:
                    training.run(stop, log)
                    training.finish()
        finally:
            engine.close()
    return DONE
