"""Search by cosine similarity. The same code gives the same order on the CPU and on the GPU."""

import torch


def similarity(queries: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """Return the (queries, vectors) cosine similarities of two sets of row vectors on one device.

    A row of zeros has similarity 0 with everything. Raises ValueError when the rows differ in length.
    """
    if queries.shape[-1] != vectors.shape[-1]:
        raise ValueError(f"the rows differ in length: {queries.shape[-1]} and {vectors.shape[-1]}")
    return torch.nn.functional.normalize(queries) @ torch.nn.functional.normalize(vectors).T


def top_k(queries: torch.Tensor, vectors: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the (queries, k) highest similarities, highest first, and the rows of `vectors` that have them.

    Among equals the earlier row comes first. There are fewer than k columns when there are fewer vectors.
    Raises ValueError when k is less than 1.
    """
    if k < 1:
        raise ValueError(f"k is {k}: it needs to be 1 or more")
    scores, rows = similarity(queries, vectors).sort(dim=1, descending=True, stable=True)
    return scores[:, :k], rows[:, :k]
