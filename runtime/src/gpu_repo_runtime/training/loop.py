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
from . import folder
from .data import examples_of, fingerprint
from .engine import DEFAULTS, Engine


class Training:
    """Trains a Task in parts, which end with a checkpoint. After a kill, the part that was at work begins again.

    One step is `accumulate` batches on each process, then one change of the weights.
    """

    def __init__(self, task: Any, make: type[Engine], options: Namespace) -> None:
        """Begin, or resume from the last checkpoint in the output folder. Raises BadConfiguration."""
        self._task, self._options, self._output = task, options, Path(options.output)
        self._say = (lambda text: None) if make.rank else say
        self._examples, self._checks = examples_of(task, options.seed)
        self._size = options.batch_size * options.accumulate * make.world
        self._steps = len(self._examples) // self._size
        if not self._steps:
            few = f"{len(self._examples)} examples do not fill a step of {self._size}"
            raise BadConfiguration(f"{few}: lower --batch-size or --accumulate")
        names = ("batch_size", "seed", "checkpoint_steps", *DEFAULTS)
        settings = {name: getattr(options, name) for name in names if name != "num_workers"}
        settings |= {"processes": make.world, "examples": fingerprint(self._examples, self._checks)}
        settings |= {"epochs": options.epochs} if hasattr(task, make.planned) else {}
        # With other settings it is another training. epochs: their rows; step, loss: since then, the loss is a sum.
        self._state: dict[str, Any] = {"settings": settings, "epochs": [], "step": 0, "loss": 0.0}
        self._state["code"] = code_fingerprint(options.package)
        self._engine = make(task, options, self._steps * options.epochs)
        if checkpoint := folder.newest(self._output):
            self._resume(checkpoint)
        self._started = time.monotonic()

    def _resume(self, checkpoint: Path) -> None:
        state, code = json.loads((checkpoint / folder.STATE).read_text()), self._state["code"]
        was, now = state["settings"], self._state["settings"]
        if changed := [f"{name} was {was[name]}, now {now.get(name)}" for name in was if was[name] != now.get(name)]:
            other = f"the checkpoint in {self._output} is of another training: {', '.join(changed)}"
            raise BadConfiguration(f"{other}: take another --output, or delete this one")
        try:
            self._engine.restore(checkpoint)
        except Exception as error:
            wrong = f"{checkpoint} is cut, or not of this task's network ({one_line(error)})"
            raise BadConfiguration(f"{wrong}: take another --output, or delete {self._output} to begin anew") from error
        if state["code"] != code:
            self._say("the code is not what it was in the steps before; the weights will be of both")
        self._state |= state | {"code": code}
        self._say(f"resumed: {len(state['epochs'])} of {self._options.epochs} epochs done, step {state['step']}")

    def run(self) -> None:
        """Train to the last epoch, or until nothing gets better, and leave the best weights."""
        while len(self._state["epochs"]) < self._options.epochs and not self._is_worse():
            self._train()
            self._save()
        if not self._engine.rank:
            folder.publish(self._output, self._options.package.strip("_"), self._state)
        row, place = folder.best(self._state["epochs"]), self._output / folder.WEIGHTS
        self._say(f"done: epoch {row['epoch']} is the best, loss {row['loss']:.4f}; its weights are in {place}")

    def _is_worse(self) -> bool:
        done = len(self._state["epochs"])
        since = done - folder.best(self._state["epochs"])["epoch"]
        if ends := bool(0 < self._options.patience <= since):
            self._say(f"stopped early after epoch {done}: {since} without a lower validation loss (--patience)")
        return ends

    def _train(self) -> None:
        """Train a part: --checkpoint-steps, or to the end of the epoch. Validate a batch, after an epoch all.

        The first part is one step: a mistake in the validation or in saving does not cost an epoch.
        """
        epoch, begin = len(self._state["epochs"]) + 1, self._state["step"]
        end = min(self._steps, begin + (self._options.checkpoint_steps if begin or epoch > 1 else 1))
        order = np.random.default_rng([self._options.seed, epoch]).permutation(len(self._examples)).tolist()
        loss = self._engine.train(self._examples, order[begin * self._size : end * self._size], f"{epoch}-{begin}")
        checks = range(len(self._checks))
        found = self._engine.evaluate(self._checks, checks if end == self._steps else checks[: self._size])
        if not math.isfinite(loss + found["loss"]):
            raise BadConfiguration(f"the loss is not a number in epoch {epoch}, step {end}: lower --learning-rate")
        self._state |= {"step": end, "loss": self._state["loss"] + loss * (end - begin)}
        if end == self._steps:
            self._end(epoch, found)

    def _end(self, epoch: int, found: dict[str, float]) -> None:
        """Report an epoch."""
        seconds, loss = round(time.monotonic() - self._started, 3), self._state["loss"] / self._steps
        self._started += seconds
        listed = ", ".join(f"{name} {value:.4f}" for name, value in found.items())
        self._say(f"epoch {epoch}: loss {loss:.4f}, validation {listed}, {seconds:.1f} s")
        own = {"epoch": epoch, "steps": self._steps, "training_loss": loss, "seconds": seconds}
        self._state |= {"epochs": [*self._state["epochs"], own | found | own], "step": 0, "loss": 0.0}

    def _save(self) -> None:
        """Let all processes write a checkpoint, and the first one make it count."""
        new = self._output / folder.CHECKPOINTS / folder.NEW
        (new / folder.WEIGHTS).mkdir(parents=True, exist_ok=True)  # a kill may have left files there
        self._engine.save(new)
        self._engine.weights(new / folder.WEIGHTS)
        self._engine.gather([])
        if not self._engine.rank:
            folder.commit(self._output, self._state)
        self._engine.gather([])
        if not self._engine.rank and not self._state["step"] and hasattr(self._task, "log"):
            self._task.log(self._state["epochs"][-1])
