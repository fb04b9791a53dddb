"""Training with Keras' own `fit` on TensorFlow: the model is compiled by its owner; all GPUs of one machine."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..batch.exits import BadConfiguration
from . import engine
from .data import begin_random


class Engine(engine.Engine):
    """Contains a compiled model of Keras."""

    def __init__(self, task: Any, options: Namespace, steps: int) -> None:
        super().__init__(task, options, steps)
        keras.utils.set_random_seed(options.seed)
        if options.device == "cpu":
            tf.config.set_visible_devices([], "GPU")
        several = len(tf.config.list_logical_devices("GPU")) > 1
        with (tf.distribute.MirroredStrategy() if several else tf.distribute.get_strategy()).scope():
            self.model = task.network()
            if not getattr(self.model, "compiled", False):
                raise BadConfiguration("network() of task.py: expected a model of Keras with a call of its compile()")
            self.model.optimizer.build(self.model.trainable_variables)
        # What Keras counts among the variables but not among the weights: the states of dropout and the like.
        weights = {id(variable) for variable in self.model.weights}
        self._generators = [one for one in self.model.variables if id(one) not in weights]

    def train(self, examples: Any, indices: Sequence[int], part: str) -> float:
        seed, batches = begin_random(self.options.seed, part), self.share(indices)
        keras.utils.set_random_seed(seed)
        for generator in self._generators:
            generator.assign(np.array([0, seed], "uint32"))
        found = self.model.fit(self.load(examples, batches), steps_per_epoch=len(batches), verbose=0)
        return float(found.history["loss"][0])

    def evaluate(self, examples: Any, indices: Sequence[int]) -> dict[str, float]:
        data = self.load(examples, batches := self.share(indices))
        return dict(self.model.evaluate(data, steps=len(batches), verbose=0, return_dict=True))

    def save(self, folder: Path) -> None:
        self.model.save_weights(folder / "state.weights.h5")

    def restore(self, folder: Path) -> None:
        self.model.load_weights(folder / "state.weights.h5")

    def export(self, network: Any, folder: Path) -> None:
        network.save(folder / "best.keras")
