"""One step of training with JAX: one process, one device, mixed precision in bfloat16, the optimizer AdamW."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..batch.exits import BadConfiguration
from . import engine
from .engine import Recipe, from_npz, loss_and_metrics, to_npz

DECAY = 0.01
FIRST, SECOND, TINY = 0.9, 0.999, 1e-8


class Engine(engine.Engine):
    """Contains weights and the state of AdamW."""

    def __init__(self, task: Any, recipe: Recipe) -> None:
        super().__init__(task)
        if recipe.precision == "float16":
            raise BadConfiguration("--precision float16 is for torch; JAX has float32 and bfloat16 here")
        self._device = jax.devices(recipe.device)[0]
        self.precision = _precision(self._device) if recipe.precision == "auto" else recipe.precision
        self._rate, self._clip = recipe.learning_rate, recipe.clip
        with jax.default_device(self._device):
            weights = task.network(recipe.seed)
        zeros = jax.tree.map(np.zeros_like, weights)
        self._state = self._moved({"weights": weights, "means": zeros, "squares": zeros})
        self._steps = 0
        self._gradients = jax.jit(jax.value_and_grad(self._loss_of))
        self._losses = jax.jit(self._losses_of)
        self._changed = jax.jit(self._adam)

    def step(self, batches: Sequence[Any], seed: int) -> None:
        """Add up the gradients of the batches, clip them, change the weights once. seed: for dropout and the like."""
        total: Any = None
        for number, batch in enumerate(batches):
            key = jax.random.fold_in(self._moved(jax.random.key(seed)), number)
            loss, gradients = self._gradients(self._state["weights"], self._moved(batch), key)
            self._loss = self._loss + loss / len(batches)
            total = gradients if total is None else jax.tree.map(jnp.add, total, gradients)
        self._steps += 1
        self._state = self._changed(self._state, total, 1.0 / len(batches), self._steps)

    def validate(self, batch: Any) -> Any:
        """Return loss and metrics of a batch."""
        return self._losses(self._state["weights"], self._moved(batch))

    def weights(self) -> bytes:
        """Return the weights alone."""
        return to_npz(_named(self._state["weights"]))

    def dump(self, extra: dict[str, Any]) -> bytes:
        """Return everything that the next step depends on, and `extra`."""
        return to_npz(_named(self._state), {"steps": self._steps, "loss": float(self._loss), "extra": extra})

    def restore(self, content: bytes) -> dict[str, Any]:
        """Load what `dump` returned; return its `extra`."""
        found, notes = from_npz(content, _named(self._state))
        self._state = self._moved(jax.tree.unflatten(jax.tree.structure(self._state), found.values()))
        self._steps, self._loss = notes["steps"], notes["loss"]
        return dict(notes["extra"])

    def _moved(self, tree: Any) -> Any:
        return jax.device_put(tree, self._device)

    def _loss_of(self, weights: Any, batch: Any, key: Any) -> Any:
        loss, _ = loss_and_metrics(self._task.loss(self._in_precision(weights), self._in_precision(batch), key), 1)
        return loss.astype(jnp.float32)

    def _losses_of(self, weights: Any, batch: Any) -> Any:
        return self._task.loss(self._in_precision(weights), self._in_precision(batch), None)

    def _in_precision(self, tree: Any) -> Any:
        """Return the tree with its float32 arrays in the precision of the computation."""
        return jax.tree.map(lambda a: a.astype(self.precision) if a.dtype == jnp.float32 else a, tree)

    def _adam(self, state: Any, gradients: Any, factor: float, steps: int) -> Any:
        norm = factor * jnp.sqrt(sum(jnp.sum(gradient**2) for gradient in jax.tree.leaves(gradients)))
        scale = factor * jnp.minimum(1.0, self._clip / (norm + TINY))
        gradients = jax.tree.map(lambda gradient: gradient * scale, gradients)
        means = jax.tree.map(lambda m, g: m + (1 - FIRST) * (g - m), state["means"], gradients)
        squares = jax.tree.map(lambda s, g: s + (1 - SECOND) * (g**2 - s), state["squares"], gradients)

        def changed(weight: Any, mean: Any, square: Any) -> Any:
            size = jnp.sqrt(square / (1 - SECOND**steps)) + TINY
            return weight - self._rate * (mean / (1 - FIRST**steps) / size + DECAY * weight)

        return {"weights": jax.tree.map(changed, state["weights"], means, squares), "means": means, "squares": squares}


def _precision(device: Any) -> str:
    """Return bfloat16 for GPUs of compute capability 8.0 or newer, float32 for others and the CPU."""
    if device.platform == "cpu":
        return "float32"
    return "bfloat16" if float(getattr(device, "compute_capability", 0)) >= 8 else "float32"


def _named(tree: Any) -> dict[str, Any]:
    """Return the arrays of a tree by the way to them, in the tree's order."""
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="-"): value for path, value in paths}
