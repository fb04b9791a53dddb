"""One step of training with TensorFlow: all GPUs of a machine by tf.distribute, mixed precision by Keras."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ..batch.exits import BadConfiguration
from . import engine
from .cluster import tensorflow_cluster
from .engine import Recipe, from_npz, loss_and_metrics, to_npz

Batch = tuple[np.ndarray, ...]


class Engine(engine.Engine):
    """Contains the network of Keras and its optimizer AdamW."""

    def __init__(self, task: Any, recipe: Recipe) -> None:
        super().__init__(task)
        if recipe.precision == "float16":
            raise BadConfiguration("--precision float16 is for torch; TensorFlow has float32 and bfloat16 here")
        cluster = tensorflow_cluster()
        self._strategy = _strategy(recipe.device, cluster)
        self.world = len(cluster.get("cluster", {}).get("worker", [None]))
        self.rank = int(cluster.get("task", {}).get("index", 0))
        self.precision = _precision(recipe.device) if recipe.precision == "auto" else recipe.precision
        policy = "mixed_bfloat16" if self.precision == "bfloat16" else "float32"
        tf.keras.mixed_precision.set_global_policy(policy)
        tf.keras.utils.set_random_seed(recipe.seed)
        with self._strategy.scope():
            self._network = task.network()
            self._optimizer = tf.keras.optimizers.AdamW(recipe.learning_rate, global_clipnorm=recipe.clip)
            self._optimizer.build(self._network.trainable_variables)
        # What Keras counts among the variables but not among the weights: the states of dropout and the like.
        weights = {id(variable) for variable in self._network.weights}
        self._generators = [v for v in self._network.variables if id(v) not in weights]
        self._gradients = tf.function(self._gradients_of, reduce_retracing=True)
        self._losses = tf.function(self._losses_of, reduce_retracing=True)

    def step(self, batches: Sequence[Batch], seed: int) -> None:
        """Add up the gradients of the batches, clip them, change the weights once. seed: for dropout and the like."""
        for generator in self._generators:
            generator.assign([0, seed])
        total: list[Any] | None = None
        for batch in batches:
            loss, gradients = self._strategy.run(self._gradients, (self._shared(batch),))
            self._loss += float(self._mean(loss)) / len(batches)
            total = gradients if total is None else self._strategy.run(_add, (total, gradients))
        self._strategy.run(self._apply, (total, 1.0 / len(batches)))

    def validate(self, batch: Batch) -> Any:
        """Return loss and metrics of a batch."""
        return self._losses(batch)

    def _sums(self, batches: Iterator[tuple[int, Batch]]) -> tuple[dict[str, float], int]:
        own, count = super()._sums(batches)
        if self.world == 1:
            return own, count
        # One answer for all, so that all stop at the same epoch.
        sums = self._strategy.run(lambda: tf.constant([*own.values(), count], tf.float64))
        *totals, whole = self._strategy.reduce(tf.distribute.ReduceOp.SUM, sums, axis=None).numpy()
        return dict(zip(own, totals, strict=True)), int(whole)

    def any(self, flag: bool) -> bool:
        """Tell whether the flag is set in any process; all have to ask."""
        if self.world == 1:
            return flag
        value = self._strategy.run(lambda: tf.constant(float(flag)))
        return bool(self._strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None).numpy())

    def weights(self) -> bytes:
        """Return the weights alone."""
        return to_npz(self._arrays("weights", self._network.weights))

    def dump(self, extra: dict[str, Any]) -> bytes:
        """Return everything that the next step depends on, and `extra`."""
        return to_npz(self._state(), {"loss": self._loss, "extra": extra})

    def restore(self, content: bytes) -> dict[str, Any]:
        """Load what `dump` returned; return its `extra`."""
        found, notes = from_npz(content, self._state())
        for name, variables in {"weights": self._network.weights, "optimizer": self._optimizer.variables}.items():
            for n, variable in enumerate(variables):
                variable.assign(found[f"{name}-{n}"])
        self._loss = notes["loss"]
        return dict(notes["extra"])

    def _state(self) -> dict[str, Any]:
        own = self._arrays("weights", self._network.weights)
        return own | self._arrays("optimizer", self._optimizer.variables)

    def _arrays(self, name: str, variables: list[Any]) -> dict[str, Any]:
        return {f"{name}-{n}": variable.numpy() for n, variable in enumerate(variables)}

    def _gradients_of(self, batch: Any) -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            loss, _ = loss_and_metrics(self._task.loss(self._network, batch, True), 1)
        # As tensors: gradients of an embedding come as slices, which cannot be added up.
        gradients = tape.gradient(loss, self._network.trainable_variables)
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]

    def _losses_of(self, batch: Any) -> Any:
        return self._task.loss(self._network, batch, False)

    def _apply(self, gradients: list[Any], factor: float) -> None:
        replicas = tf.distribute.get_replica_context()
        mean = [replicas.all_reduce(tf.distribute.ReduceOp.MEAN, gradient) * factor for gradient in gradients]
        self._optimizer.apply(mean, self._network.trainable_variables)

    def _shared(self, batch: Batch) -> Any:
        """Return the batch for one device, or a share of it for each of this machine's."""
        count = self._strategy.num_replicas_in_sync // self.world
        if count == 1:
            return batch
        parts = [tuple(np.array_split(array, count)[n] for array in batch) for n in range(count)]
        value = self._strategy.experimental_distribute_values_from_function
        return value(lambda context: parts[context.replica_id_in_sync_group % count])

    def _mean(self, value: Any) -> Any:
        return self._strategy.reduce(tf.distribute.ReduceOp.MEAN, value, axis=None)


def _strategy(device: str, cluster: dict[str, Any]) -> tf.distribute.Strategy:
    if cluster:
        return tf.distribute.MultiWorkerMirroredStrategy()
    gpus = tf.config.list_logical_devices("GPU") if device == "cuda" else []
    if len(gpus) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.OneDeviceStrategy("/GPU:0" if gpus else "/CPU:0")


def _precision(device: str) -> str:
    """Return bfloat16 for GPUs of compute capability 8.0 or newer, float32 for others and the CPU."""
    if device == "cpu":
        return "float32"
    details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
    return "bfloat16" if details.get("compute_capability", (0, 0)) >= (8, 0) else "float32"


def _add(left: list[Any], right: list[Any]) -> list[Any]:
    return [a + b for a, b in zip(left, right, strict=True)]
