"""Epochs, validation, checkpoints: a training that is killed at any moment resumes as if it had not been."""

import json
import math
import time
from argparse import Namespace
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..batch.exits import BadConfiguration
from ..batch.messages import one_line, say
from ..batch.plan import code_fingerprint
from ..batch.stop import Stop
from ..device import is_device_lost, is_out_of_memory
from . import folder
from .data import Batches, batches_of, checksum, examples_of, shuffled
from .engine import DEFAULTS, Engine

STATE, RESULT = "state.json", "result.json"
_SMALLER = "try a smaller --learning-rate and another --output; a checkpoint from before it stays"
# What a restart may change without becoming another training.
_CHANGEABLE = {"precision", "num_workers"}


@dataclass
class Position:
    """Where the training is: its finished epochs and the best of them; steps and the sum of their losses since."""

    epochs: list[dict[str, Any]] = field(default_factory=list)
    best: int = 0
    step: int = 0
    loss: float = 0.0


class Training:
    """Trains a Task. One step is `accumulate` batches on each process, then one change of the weights."""

    def __init__(self, task: Any, make: type[Engine], options: Namespace, stop: Stop) -> None:
        self._task, self._options, self._root, self._stop = task, options, Path(options.output), stop
        self._checkpoints = self._root / "checkpoint"
        self._examples, self._checks = examples_of(task, options.seed)
        each = options.batch_size * options.accumulate * make.world
        self._steps = len(self._examples) // each
        if not self._steps:
            few = f"{len(self._examples)} examples do not fill one step of {each}"
            raise BadConfiguration(f"{few}: take a smaller --batch-size or --accumulate")
        self.engine = make(task, options, self._steps * options.epochs)
        names = {"batch_size", "seed", *DEFAULTS, *(["epochs"] if self.engine.scheduled else [])} - _CHANGEABLE
        self._settings = {name: getattr(options, name) for name in sorted(names)} | {
            "precision": self.engine.precision,
            "processes": self.engine.world,
            "examples": len(self._examples),
            "checksum of some examples": self._sample(),
        }
        self._validation = self._own(batches_of(range(len(self._checks)), options.batch_size))
        self._code = code_fingerprint(options.package)
        self._position = Position()

    def _sample(self) -> int:
        """Return a checksum by which replaced examples are noticed, 0 if they differ each time."""
        parts = (self._examples, self._checks)
        some = [[[at] for at in range(0, len(part), -(-len(part) // 16))] for part in parts]
        pairs = list(zip(parts, some, strict=True))
        one, other = (checksum([list(self.engine.load(*pair, "sample")) for pair in pairs]) for _ in range(2))
        return one if one == other else 0

    def _resume(self, checkpoint: Path) -> None:
        """Load a checkpoint. Raises BadConfiguration where it is of another training."""
        state = json.loads((checkpoint / STATE).read_text())
        pairs = {key: (was, self._settings.get(key)) for key, was in state["settings"].items()}
        if changed := [f"{key} was {was}, now {now}" for key, (was, now) in pairs.items() if was != now]:
            other = f"the checkpoint in {self._root} is of another training: {', '.join(changed)}"
            raise BadConfiguration(f"{other}: take another --output, or delete this one")
        try:
            self.engine.restore(checkpoint)
        except Exception as error:
            if is_device_lost(error) or is_out_of_memory(error):
                raise
            wrong = f"{checkpoint} is cut, or not of this task's network ({one_line(error)})"
            raise BadConfiguration(f"{wrong}: take another --output, or delete {self._root} to begin anew") from error
        self._position = at = Position(**state["position"])
        self._say(f"resumed: {len(at.epochs)} of {self._options.epochs} epochs done, step {at.step} of {self._steps}")
        if state["code"] != self._code:
            self._say("the code is not what it was in the steps before; the weights will be of both")

    def _rehearse(self) -> None:
        """Save, train a step, validate a batch, write weights, restore: a mistake there does not cost an epoch."""
        self._write(better=False)
        some = self._batches("rehearsal")[: self._options.accumulate]
        self.engine.train(self._examples, some, "rehearsal", lambda: False)
        self.engine.evaluate(self._checks, self._validation[:1], "rehearsal")
        self.engine.weights(self._checkpoints / folder.NEW / folder.BEST)
        self.engine.restore(self._checkpoints / folder.NEW)

    def run(self) -> None:
        """Resume or rehearse, train to the end or until nothing gets better, leave the best weights. Raises Stopped."""
        with self._stop.at_once("the training was prepared"):
            if checkpoint := folder.newest(self._checkpoints):
                self._resume(checkpoint)
            else:
                self._rehearse()
        while (done := len(self._position.epochs)) < self._options.epochs:
            since = done - self._position.best
            if self._options.patience and since >= self._options.patience:
                self._say(f"stopped early after epoch {done}: {since} without a lower validation loss (--patience)")
                break
            self._epoch(done + 1)
            self._stop.between_parts()
        if not self.engine.rank:
            self._finish()

    def _epoch(self, number: int) -> None:
        position, seed, start = self._position, f"{self._options.seed}-{number}", time.monotonic()
        self._train(number, self._batches(seed), seed)
        found = self.engine.evaluate(self._checks, self._validation, f"{self._options.seed}-validation")
        seconds, loss = round(time.monotonic() - start, 3), position.loss / self._steps
        row = {"epoch": number, "steps": self._steps, "training_loss": loss, **found, "seconds": seconds}
        listed = ", ".join(f"{name} {value:.4f}" for name, value in found.items())
        self._say(f"epoch {number}: loss {loss:.4f}, validation {listed}, {seconds:.1f} s")
        if not math.isfinite(found["loss"]):
            raise BadConfiguration(f"the loss of epoch {number} is not a number: {_SMALLER}")
        better = not position.best or found["loss"] < position.epochs[position.best - 1]["loss"]
        self._position = Position([*position.epochs, row], number if better else position.best)
        if not self.engine.rank:
            folder.write_metrics(self._root / "metrics.csv", self._position.epochs)
        self._save(better)
        if hasattr(self._task, "log") and not self.engine.rank:
            self._task.log(row)

    def _train(self, epoch: int, batches: Batches, seed: str) -> None:
        """Train the rest of an epoch. A checkpoint is written each --checkpoint-steps, and when a signal comes."""
        position, each = self._position, self._options.accumulate
        while position.step < self._steps:
            own = batches[position.step * each :][: self._options.checkpoint_steps * each]
            loss, done = self.engine.train(self._examples, own, seed, lambda: bool(self._stop.signal))
            position.step, position.loss = position.step + done // each, position.loss + loss * (done // each)
            if math.isnan(loss):
                place = f"epoch {epoch}, by step {position.step} of {self._steps}"
                raise BadConfiguration(f"the loss is not a number in {place}: {_SMALLER}")
            if position.step < self._steps:
                self._save()
                self._stop.between_parts()

    def _batches(self, seed: str) -> Batches:
        """Return this process's batches of an epoch, those that fill its steps."""
        used = self._steps * self._options.accumulate * self.engine.world
        return self._own(batches_of(shuffled(len(self._examples), seed), self._options.batch_size)[:used])

    def _own(self, batches: Batches) -> Batches:
        """Return this process's batches, as many on each: FSDP waits for all. One may be empty."""
        missing = -len(batches) % self.engine.world
        return [*batches, *([] for _ in range(missing))][self.engine.rank :: self.engine.world]

    def _save(self, better: bool = False) -> None:
        """Write a checkpoint in the place of the last one. better: its weights are the best by now."""
        self._write(better)
        if not self.engine.rank:
            state = {"settings": self._settings, "position": asdict(self._position), "code": self._code}
            (self._checkpoints / folder.NEW / STATE).write_text(json.dumps(state))
            number = len(self._position.epochs) * self._steps + self._position.step
            folder.commit(self._checkpoints, number)

    def _write(self, better: bool) -> None:
        """Let all processes write into one folder, which nobody takes for a checkpoint yet."""
        new = self._checkpoints / folder.NEW
        if not self.engine.rank:
            folder.begin(self._checkpoints, keep=not better)
        self.engine.gather(0)
        self.engine.save(new)
        if better:
            self.engine.weights(new / folder.BEST)
        self.engine.gather(0)

    def _finish(self) -> None:
        """Leave the weights for a service and, last, the result's summary."""
        number, owner = self._position.best, self._options.package.strip("_")
        best = self._position.epochs[number - 1]
        last = self._checkpoints / str(len(self._position.epochs) * self._steps)
        folder.leave_weights(last / folder.BEST, self._root / "weights", owner)
        summary = {"best": best, "epochs": len(self._position.epochs), "settings": self._settings}
        (self._root / RESULT).write_text(json.dumps(summary, indent=1) + "\n")
        self._say(f"done: epoch {number} is the best, loss {best['loss']:.4f}; its weights are in {self._root}/weights")

    def _say(self, text: str) -> None:
        if not self.engine.rank:
            say(text)
