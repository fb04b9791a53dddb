"""The model. Put your own in place of it: `load` once at the start, `predict` for every batch."""

import re
import zlib

import numpy as np
import tensorflow as tf

{% include "templates/shared/src/words.py" %}


class Model:
    """Turn text into vectors: words hashed to vectors and summed up, so that texts that share words are close."""

    # Texts that the smoke test predicts on the CPU and on the GPU; the numbers may differ by at most `tolerance`.
    examples = ("Rain and wind are in the forecast", "The team won the match by one goal", "")
    tolerance = 1e-4

    def load(self, device: str) -> None:
        """Bring the model to `device` ("cpu" or "cuda")."""
        self.device = "/GPU:0" if device == "cuda" else "/CPU:0"
        with tf.device(self.device):
            self.table = tf.constant(hashing_table())

    def embed(self, texts: list[str]) -> tf.Tensor:
        """Return (texts, DIMENSION) float32 vectors of length 1; a text without words becomes zeros."""
        with tf.device(self.device):
            return tf.math.l2_normalize(tf.reduce_sum(tf.gather(self.table, word_ids(texts)), axis=1), axis=1)

    def predict(self, batch: list[str]) -> list[list[float]]:
        """Return the vector of each text as plain numbers."""
        vectors: list[list[float]] = self.embed(batch).numpy().tolist()
        return vectors
