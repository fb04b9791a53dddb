"""Epochs, validation, checkpoints: a training that is killed at any moment resumes as if it had not been."""

import json
import math
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from ..batch.exits import BadConfiguration
from ..batch.messages import one_line, say
from ..batch.plan import code_fingerprint
from ..batch.stop import Stop
from ..device import is_device_lost, is_out_of_memory
from . import folder
from .data import Batches, examples_of, fingerprint
from .engine import Engine

# With others of these options it is another training.
_SETTINGS = ("accumulate", "batch_size", "clip", "learning_rate", "seed")


class Training:
    """Trains a Task. One step is `accumulate` batches on each process, then one change of the weights."""

    def __init__(self, task: Any, make: type[Engine], options: Namespace, stop: Stop) -> None:
        """Resume the training in the output folder; rehearse a new one. Raises BadConfiguration."""
        self._task, self._options, self._stop = task, options, stop
        self._output, self._checkpoints = Path(options.output), Path(options.output, "checkpoint")
        self._examples, self._checks = examples_of(task, options.seed)
        each = options.batch_size * options.accumulate * make.world
        self._steps = len(self._examples) // each
        if not self._steps:
            few = f"{len(self._examples)} examples do not fill one step of {each}"
            raise BadConfiguration(f"{few}: take a smaller --batch-size or --accumulate")
        self._used = self._steps * each
        self._engine = make(task, options, self._steps * options.epochs)
        self._validation = self._engine.share(range(len(self._checks)))
        settings = {name: getattr(options, name) for name in _SETTINGS} | self._engine.settings
        settings |= {"processes": make.world, "examples": fingerprint(self._examples, self._checks)}
        # Of each checkpoint: a row for each finished epoch; the steps since, and the sum of their losses.
        self._state: dict[str, Any] = {"settings": settings, "epochs": [], "step": 0, "loss": 0.0}
        self._state["code"] = code_fingerprint(options.package)
        if checkpoint := folder.newest(self._checkpoints):
            self._resume(checkpoint)
        else:
            self._rehearse()
        self._started = time.monotonic()

    def _resume(self, checkpoint: Path) -> None:
        state, now = json.loads((checkpoint / folder.STATE).read_text()), self._state
        pairs = {name: (was, now["settings"].get(name)) for name, was in state["settings"].items()}
        if changed := [f"{name} was {was}, now {new}" for name, (was, new) in pairs.items() if was != new]:
            other = f"the checkpoint in {self._output} is of another training: {', '.join(changed)}"
            raise BadConfiguration(f"{other}: take another --output, or delete this one")
        try:
            self._engine.restore(checkpoint)
        except Exception as error:
            if is_device_lost(error) or is_out_of_memory(error):
                raise
            wrong = f"{checkpoint} is cut, or not of this task's network ({one_line(error)})"
            raise BadConfiguration(f"{wrong}: take another --output, or delete {self._output} to begin anew") from error
        if state["code"] != now["code"]:
            self._say("the code is not what it was in the steps before; the weights will be of both")
        self._state |= state | {"code": now["code"]}
        epochs = f"{len(now['epochs'])} of {self._options.epochs} epochs done"
        self._say(f"resumed: {epochs}, step {now['step']} of {self._steps}")

    def _rehearse(self) -> None:
        """Save, train a step, validate a batch, write weights, restore: a mistake there does not cost an epoch."""
        new = self._write()
        self._engine.train(self._examples, self._batches(0)[: self._options.accumulate], "rehearsal", lambda: False)
        self._engine.evaluate(self._checks, self._validation[:1], "rehearsal")
        self._engine.weights(new)
        self._engine.restore(new)

    def run(self) -> None:
        """Train to the last epoch, or until nothing gets better, and leave the best weights. Raises Stopped."""
        while (done := len(self._state["epochs"])) < self._options.epochs:
            since = done - best(self._state["epochs"])["epoch"]
            if since >= (self._options.patience or math.inf):
                self._say(f"stopped early after epoch {done}: {since} without a lower validation loss (--patience)")
                break
            self._train(done + 1)
            self._stop.between_parts()
        self._finish()

    def _train(self, epoch: int) -> None:
        """Train to the next checkpoint: after --checkpoint-steps, at the end of the epoch, or when a signal comes."""
        state, each, seed = self._state, self._options.accumulate, f"{self._options.seed}-{epoch}"
        some = self._batches(epoch)[state["step"] * each :][: self._options.checkpoint_steps * each]
        loss, steps = self._engine.train(self._examples, some, seed, lambda: bool(self._stop.signal))
        state["step"] += steps
        state["loss"] += loss * steps
        self._check(loss, f"in epoch {epoch}, by step {state['step']} of {self._steps}")
        if state["step"] < self._steps:
            self._save()
        else:
            self._end(epoch)

    def _end(self, epoch: int) -> None:
        """Validate, save, and report the epoch."""
        found = self._engine.evaluate(self._checks, self._validation, f"{self._options.seed}-validation")
        self._check(found["loss"], f"in the validation of epoch {epoch}")
        seconds, loss = round(time.monotonic() - self._started, 3), self._state["loss"] / self._steps
        self._started += seconds
        listed = ", ".join(f"{name} {value:.4f}" for name, value in found.items())
        self._say(f"epoch {epoch}: loss {loss:.4f}, validation {listed}, {seconds:.1f} s")
        row = {"epoch": epoch, "steps": self._steps, "training_loss": loss, **found, "seconds": seconds}
        self._state |= {"epochs": [*self._state["epochs"], row], "step": 0, "loss": 0.0}
        if not self._engine.rank:
            folder.write_metrics(self._output / "metrics.csv", self._state["epochs"])
        self._save()
        if not self._engine.rank and hasattr(self._task, "log"):
            self._task.log(row)

    def _check(self, loss: float, place: str) -> None:
        if not math.isfinite(loss):
            smaller = "try a smaller --learning-rate and another --output; a checkpoint from before it stays"
            raise BadConfiguration(f"the loss is not a number {place}: {smaller}")

    def _batches(self, epoch: int) -> Batches:
        """Return this process's batches of an epoch, each in another order."""
        order = np.random.default_rng([self._options.seed, epoch]).permutation(len(self._examples))
        return self._engine.share(order[: self._used].tolist())

    def _save(self) -> None:
        """Write a checkpoint, and delete the others except that of the best epoch."""
        self._write()
        if not self._engine.rank:
            epochs = self._state["epochs"]
            number, kept = len(epochs) * self._steps + self._state["step"], best(epochs)["epoch"] * self._steps
            folder.commit(self._checkpoints, number, self._state, kept)
        self._engine.gather(0)

    def _write(self) -> Path:
        """Let all processes write into one folder, which is not a checkpoint yet, and return it."""
        new = self._checkpoints / folder.NEW
        if not self._engine.rank:
            folder.empty(new)
        self._engine.gather(0)
        self._engine.save(new)
        self._engine.gather(0)
        return new

    def _finish(self) -> None:
        """Leave the best weights for a service and, last, the result's summary."""
        epochs, name, weights = self._state["epochs"], self._options.package.strip("_"), self._output / "weights"
        row = best(epochs)
        self._engine.restore(self._checkpoints / str(row["epoch"] * self._steps))
        if not self._engine.rank:
            folder.empty(weights / name)
        self._engine.weights(weights / name)
        if not self._engine.rank:
            folder.lock_weights(weights, name)
            summary = {"best": row, "epochs": len(epochs), "settings": self._state["settings"]}
            (self._output / "result.json").write_text(json.dumps(summary, indent=1) + "\n")
        self._say(f"done: epoch {row['epoch']} is the best, loss {row['loss']:.4f}; its weights are in {weights}")

    def _say(self, text: str) -> None:
        if not self._engine.rank:
            say(text)


def best(epochs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first epoch with the lowest validation loss."""
    return min(epochs, key=lambda row: row["loss"], default={"epoch": 0})
