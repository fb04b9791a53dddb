"""The model. Put your own in place of it: `load` once at the start, `predict` for every batch."""

import re
import zlib

import numpy as np
import tensorflow as tf
{% if project_type == 'service' %}
from pydantic import BaseModel
{% endif %}

{% include "templates/shared/src/topics.py" %}
{% include "templates/shared/src/words.py" %}


{% include "templates/shared/src/output.py" %}
class Model:
    """Find the topic of a text: words hashed to vectors, summed up, compared with the words of each topic."""

    # Texts that the smoke test predicts on the CPU and on the GPU; the numbers may differ by at most `tolerance`.
    examples = ("Rain and wind are in the forecast", "The team won the match by one goal", "")
    tolerance = 1e-4

    def load(self, device: str) -> None:
        """Bring the model to `device` ("cpu" or "cuda")."""
        self.device = "/GPU:0" if device == "cuda" else "/CPU:0"
        self.labels = list(TOPICS)
        with tf.device(self.device):
            self.table = tf.constant(hashing_table())
            self.topics = self.embed(list(TOPICS.values()))

    def embed(self, texts: list[str]) -> tf.Tensor:
        """Return (texts, DIMENSION) float32 vectors of length 1; a text without words becomes zeros."""
        return tf.math.l2_normalize(tf.reduce_sum(tf.gather(self.table, word_ids(texts)), axis=1), axis=1)

{% if project_type == 'service' %}
    def predict(self, batch: list[Input]) -> list[Output]:
        """Return one output for each text."""
{% else %}
    def predict(self, batch: list[str]) -> list[dict[str, str | float]]:
        """Return one {"label", "score"} for each text; the scores of all labels of a text sum up to 1."""
{% endif %}
        with tf.device(self.device):
            scores = tf.nn.softmax(8 * tf.matmul(self.embed(batch), self.topics, transpose_b=True))
        scores = scores.numpy()
{% if project_type == 'service' %}
        return [Output(label=self.labels[row.argmax()], score=float(row.max())) for row in scores]
{% else %}
        return [{"label": self.labels[row.argmax()], "score": float(row.max())} for row in scores]
{% endif %}
