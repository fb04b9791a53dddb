"""Which texts share a batch: those that an estimate, or the model itself, takes for about as long."""

from __future__ import annotations

import pydoc_data.topics
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.batch.conftest import write_jsonl


@pytest.fixture
def lengths(job) -> ModuleType:
    """Return the child's module."""
    return job.module("ordering")


def padded(tokens: np.ndarray, order: np.ndarray) -> int:
    """Return the tokens in batches of 64 whose texts are all as long as the longest."""
    return sum(int(batch.max()) * len(batch) for batch in np.split(tokens[order], range(64, len(order), 64)))


def test_lines_with_signs_and_numbers_need_less_padding_than_by_their_bytes(lengths):
    lines = [line for line in "\n".join(pydoc_data.topics.topics.values()).splitlines() if line.strip()]
    tokens = np.array([len(re.findall(r"[^\W\d_]{1,8}|[^\s\w]|[\d_]", line)) for line in lines])
    by_bytes = padded(tokens, np.argsort([len(line.encode()) for line in lines], kind="stable"))
    estimated = padded(tokens, np.argsort(lengths.estimate(pa.array(lines)), kind="stable"))
    assert estimated < 0.75 * by_bytes


def run(job, model, monkeypatch, tmp_path, out, lines: list[str], size: Callable[[Any, str], Any], **options):
    """Run the job with a model that has this `size`; return its exit code and the batches of the model."""
    batches: list[list[str]] = []
    predict = model.predict
    monkeypatch.setattr(model, "predict", lambda self, batch: batches.append([*batch]) or predict(self, batch))
    monkeypatch.setattr(model, "size", size, raising=False)
    source = write_jsonl(tmp_path / "a.jsonl", lines)
    given = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    return job("--input", source, "--output", out.path, *given), batches


def test_the_model_says_which_texts_share_a_batch(job, model, monkeypatch, tmp_path, out):
    monkeypatch.setattr(model, "examples", ("number 1", "number 2"))
    lines = [f"{'a long number' if n % 3 else 'number'} {n * 7919 % 2500}" for n in range(2500)]
    size: Callable[[Any, str], int] = lambda self, one: int(one.split()[-1])  # noqa: E731
    code, batches = run(job, model, monkeypatch, tmp_path, out, lines, size, batch_size=100)
    assert code == 0
    assert [row["text"] for row in out.rows()] == lines, "the result is in the order of the input"
    numbers = [int(text.split()[-1]) for batch in batches[1:] for text in batch]
    assert numbers == sorted(numbers, reverse=True)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (lambda self, one: 1 // (one != "odd"), "`size` of the model fails: ZeroDivisionError"),
        (lambda self, one: 0.5, "`size` of the model returned 0.5: return a whole number"),
    ],
)
def test_a_size_that_cannot_be_used_ends_the_job(job, model, monkeypatch, tmp_path, out, capsys, size, said):
    code, batches = run(job, model, monkeypatch, tmp_path, out, ["x", "odd"], size)
    assert code == 78
    assert said in capsys.readouterr().err
    assert len(batches) == 1, "the model's examples alone"
