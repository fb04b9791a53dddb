"""Search by cosine similarity. The same code gives the same order on the CPU (NumPy) and on the GPU (CuPy)."""

from typing import Any


def _unit(rows: Any) -> Any:
    xp = rows.__array_namespace__()
    return rows / xp.maximum(xp.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def similarity(queries: Any, vectors: Any) -> Any:
    """Return the (queries, vectors) cosine similarities of two sets of row vectors, both NumPy or both CuPy arrays.

    A row of zeros has similarity 0 with everything. Raises ValueError when the rows differ in length.
    """
    if queries.shape[-1] != vectors.shape[-1]:
        raise ValueError(f"the rows differ in length: {queries.shape[-1]} and {vectors.shape[-1]}")
    return _unit(queries) @ _unit(vectors).T


def top_k(queries: Any, vectors: Any, k: int) -> tuple[Any, Any]:
    """Return the (queries, k) highest similarities, highest first, and the rows of `vectors` that have them.

    Among equals the earlier row comes first. There are fewer than k columns when there are fewer vectors.
    Raises ValueError when k is less than 1.
    """
    if k < 1:
        raise ValueError(f"k is {k}: it needs to be 1 or more")
    scores = similarity(queries, vectors)
    xp = scores.__array_namespace__()
    rows = xp.argsort(-scores, axis=1, kind="stable")[:, :k]
    return xp.take_along_axis(scores, rows, axis=1), rows
