"""Search by cosine similarity. The same code gives the same order on the CPU and on the GPU."""

import tensorflow as tf


def similarity(queries: tf.Tensor, vectors: tf.Tensor) -> tf.Tensor:
    """Return the (queries, vectors) cosine similarities of two sets of row vectors.

    A row of zeros has similarity 0 with everything. Raises ValueError when the rows differ in length.
    """
    if queries.shape[-1] != vectors.shape[-1]:
        raise ValueError(f"the rows differ in length: {queries.shape[-1]} and {vectors.shape[-1]}")
    return tf.matmul(tf.math.l2_normalize(queries, axis=1), tf.math.l2_normalize(vectors, axis=1), transpose_b=True)


def top_k(queries: tf.Tensor, vectors: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the (queries, k) highest similarities, highest first, and the rows of `vectors` that have them.

    Among equals the earlier row comes first. There are fewer than k columns when there are fewer vectors.
    Raises ValueError when k is less than 1.
    """
    if k < 1:
        raise ValueError(f"k is {k}: it needs to be 1 or more")
    scores = similarity(queries, vectors)
    rows = tf.argsort(scores, direction="DESCENDING", stable=True)[:, :k]
    return tf.gather(scores, rows, batch_dims=1), rows
