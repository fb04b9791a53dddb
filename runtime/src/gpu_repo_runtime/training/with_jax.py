"""Training with JAX: one process, one device; the optimizer is Optax's, the checkpoints are Orbax's."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp

from . import engine
from .engine import loss_and_metrics


class Engine(engine.Engine):
    """Contains weights, a tree of arrays, and the state of the optimizer."""

    applies = ("learning_rate", "accumulate", "clip")

    def __init__(self, task: Any, options: Namespace, steps: int) -> None:
        super().__init__(task, options, steps)
        jax.config.update("jax_default_device", jax.devices(options.device)[0])
        self.scheduled = hasattr(task, "optimizer")
        rate = options.learning_rate
        own = task.optimizer(rate, steps) if self.scheduled else optax.adamw(rate, weight_decay=0.01)
        clipped = optax.chain(optax.clip_by_global_norm(options.clip), own)
        self._optimizer = optax.MultiSteps(clipped, options.accumulate)
        weights = jax.tree.map(jnp.asarray, task.network(options.seed))
        self._state = {"weights": weights, "optimizer": self._optimizer.init(weights)}
        self._loss = jax.value_and_grad(lambda *given: loss_and_metrics(task.loss(*given), 1)[0])
        self._losses = jax.jit(lambda weights, batch: task.loss(weights, batch, None))
        self._step = jax.jit(self._stepped)

    def learn(self, batch: Any, seed: int) -> jax.Array:
        self._state, loss = self._step(self._state, batch, jax.random.key(seed))
        return loss

    def _stepped(self, state: Any, batch: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        loss, gradients = self._loss(state["weights"], batch, key)
        changes, optimizer = self._optimizer.update(gradients, state["optimizer"], state["weights"])
        return {"weights": optax.apply_updates(state["weights"], changes), "optimizer": optimizer}, loss

    def validate(self, batch: Any) -> Any:
        return self._losses(self._state["weights"], batch)

    def save(self, folder: Path) -> None:
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(folder.resolve() / "state", self._state)

    def restore(self, folder: Path) -> None:
        with ocp.StandardCheckpointer() as checkpointer:
            self._state = checkpointer.restore(folder.resolve() / "state", self._state)

    def weights(self, folder: Path) -> None:
        if hasattr(self.task, "save"):
            self.task.save(self._state["weights"], folder)
            return
        paths = jax.tree_util.tree_flatten_with_path(self._state["weights"])[0]
        named = {jax.tree_util.keystr(path, simple=True, separator="-"): np.asarray(value) for path, value in paths}
        np.savez(folder / "best.npz", **named)  # type: ignore[arg-type]
