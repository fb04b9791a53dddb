"""What is learnt by `train`. Put your own data, network and loss in place of these."""

import numpy as np
import tensorflow as tf

from .chapters import CHAPTERS, Example, lines_of_chapters
from .model import BUCKETS, word_ids

DIMENSION = 64


class Task:
    """Tell from a line of Python's language reference, which every Python carries, from which chapter it is."""

    def data(self) -> tuple[list[Example], list[Example]]:
        """Return the examples to learn from and those to check with."""
        lines = lines_of_chapters()
        return [line for number, line in enumerate(lines) if number % 5], lines[::5]

    def network(self) -> tf.keras.Model:
        """Return the network with fresh weights; the scores are float32 also where the rest is not."""
        words = tf.keras.Input((None,), dtype="int64")
        vectors = tf.keras.layers.Embedding(1 + BUCKETS, DIMENSION, mask_zero=True)(words)
        mean = tf.keras.layers.GlobalAveragePooling1D()(vectors)
        mean = tf.keras.layers.Dropout(0.2)(mean)
        return tf.keras.Model(words, tf.keras.layers.Dense(CHAPTERS, dtype="float32")(mean))

    def collate(self, examples: list[Example]) -> tuple[np.ndarray, ...]:
        """Return the examples as arrays; a thread does this ahead of the training."""
        return word_ids([text for text, _ in examples]), np.array([label for _, label in examples])

    def loss(self, network: tf.keras.Model, batch: tuple, training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the mean loss of a batch, and how many of its examples the network gets right."""
        words, labels = batch
        scores = network(words, training=training)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
        return tf.reduce_mean(loss), tf.reduce_sum(tf.cast(tf.argmax(scores, 1) == labels, tf.float32))
