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


class Engine(engine.Engine):
    """Contains weights, a tree of arrays, and the state of the optimizer."""

    applies = ("learning_rate", "clip")
    planned = "optimizer"

    def __init__(self, task: Any, options: Namespace, steps: int) -> None:
        super().__init__(task, options, steps)
        jax.config.update("jax_default_device", jax.devices(options.device)[0])
        own = getattr(task, "optimizer", lambda rate, _: optax.adamw(rate, weight_decay=0.01))
        self._optimizer = optax.chain(optax.clip_by_global_norm(options.clip), own(options.learning_rate, steps))
        self.model = jax.tree.map(jnp.asarray, task.network(options.seed))
        self._state = self._optimizer.init(self.model)
        self._step = jax.jit(self._stepped)
        self._losses = jax.jit(lambda weights, batch: task.loss(weights, batch, None))

    def learn(self, batch: Any) -> jax.Array:
        self.model, self._state, loss = self._step(self.model, self._state, batch, np.random.randint(2**31))
        return loss

    def _stepped(self, weights: Any, state: Any, batch: Any, seed: int) -> tuple[Any, Any, jax.Array]:
        loss_of = jax.value_and_grad(lambda *given: engine.named(self.task.loss(*given))["loss"])
        loss, gradients = loss_of(weights, batch, jax.random.key(seed))
        changes, state = self._optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, changes), state, loss

    def validate(self, batch: Any) -> Any:
        return self._losses(self.model, batch)

    def save(self, folder: Path) -> None:
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(folder.resolve() / "state", (self.model, self._state), force=True)

    def restore(self, folder: Path) -> None:
        with ocp.StandardCheckpointer() as checkpointer:
            self.model, self._state = checkpointer.restore(folder.resolve() / "state", (self.model, self._state))

    def export(self, weights: Any, folder: Path) -> None:
        paths = jax.tree_util.tree_flatten_with_path(weights)[0]
        named = {jax.tree_util.keystr(path, simple=True, separator="-"): np.asarray(value) for path, value in paths}
        np.savez(folder / "best.npz", **named)  # type: ignore[arg-type]
