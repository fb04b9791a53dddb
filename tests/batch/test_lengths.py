"""Which inputs share a batch: those that an estimate takes for about as long."""

from __future__ import annotations

import pydoc_data.topics
import re

import numpy as np
import pyarrow as pa
from gpu_repo_runtime.batch.ordering import estimate

from tests.batch.made import write

TOKENS = """
    from pydantic import BaseModel

    class Input(BaseModel):
        tokens: list[int]

    class Output(BaseModel):
        own: int
        longest: int

    class Model:
        examples = (Input(tokens=[1]),)

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input]) -> list[Output]:
            lengths = [len(one.tokens) for one in batch]
            return [Output(own=own, longest=max(lengths)) for own in lengths]
"""


def padded(tokens: np.ndarray, order: np.ndarray) -> int:
    """Return the tokens in batches of 64 whose texts are all as long as the longest."""
    return sum(int(batch.max()) * len(batch) for batch in np.split(tokens[order], range(64, len(order), 64)))


def test_lines_with_signs_and_numbers_need_less_padding_than_by_their_bytes():
    lines = [line for line in "\n".join(pydoc_data.topics.topics.values()).splitlines() if line.strip()]
    tokens = np.array([len(re.findall(r"[^\W\d_]{1,8}|[^\s\w]|[\d_]", line)) for line in lines])
    by_bytes = padded(tokens, np.argsort([len(line.encode()) for line in lines], kind="stable"))
    estimated = padded(tokens, np.argsort(estimate(pa.array(lines)), kind="stable"))
    assert estimated < 0.75 * by_bytes


def test_lists_of_like_length_share_a_batch(made, tmp_path, out):
    source = write(tmp_path / "a.parquet", [{"tokens": [1] * (n * 7919 % 100)} for n in range(500)])
    assert made(TOKENS)("--input", source, "--output", out.path, "--batch-size", 50) == 0
    assert sum(row["longest"] - row["own"] for row in out.rows()) < 0.15 * sum(row["own"] for row in out.rows())
