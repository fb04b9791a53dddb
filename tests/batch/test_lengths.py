"""Which inputs share a batch: those that an estimate takes for about as long."""

from __future__ import annotations

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


def test_lists_of_like_length_share_a_batch(made, tmp_path, out):
    source = write(tmp_path / "a.parquet", [{"tokens": [1] * (n * 7919 % 100)} for n in range(500)])
    assert made(TOKENS)("--input", source, "--output", out.path, "--batch-size", 50) == 0
    assert sum(row["longest"] - row["own"] for row in out.rows()) < 0.15 * sum(row["own"] for row in out.rows())
