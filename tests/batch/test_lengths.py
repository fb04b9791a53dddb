"""Which texts share a batch: those that an estimate, or the model itself, takes for about as long."""

from __future__ import annotations

import os
import pydoc_data.topics
import random
import re
import signal
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.batch.conftest import write_jsonl

PIECES = ["", "a", "b", "Z", "1", "9", " ", "\n", "-", "_", ".", "é", "ß", "中", "文", "п", "😀"]


@pytest.fixture
def lengths(job) -> ModuleType:
    """Return the child's module."""
    return job.module("estimates")


def by_characters(text: str) -> int:
    """Return what the estimate says it counts, character by character."""
    count, before = 0, "-"
    for character in text:
        latin = character.isalpha() and character < "\u0280"
        if character <= " ":
            count += before <= " "
        elif latin:
            count += not (before.isalpha() or before > "\u007f")
        else:
            count += 1
        before = character
    return count + len(text.encode()) // 4


def test_the_estimate_counts_what_it_says(lengths, monkeypatch):
    chance = random.Random(0)
    some = ["", "", *("".join(chance.choices(PIECES, k=chance.randrange(9))) for _ in range(2000)), "", ""]
    expected = [by_characters(text) for text in some]
    texts = pa.array(some)
    assert lengths.estimate(texts).tolist() == expected
    assert lengths.estimate(texts.slice(7, 50)).tolist() == expected[7:57], "a slice of an array"
    monkeypatch.setattr(lengths, "BYTES_AT_ONCE", 999)
    assert lengths.estimate(texts).tolist() == expected, "some at a time"
    for empty in ([], [""], ["", ""]):
        assert lengths.estimate(pa.array(empty, pa.string())).tolist() == [0] * len(empty)


def padded(tokens: np.ndarray, order: np.ndarray) -> int:
    """Return the tokens in batches of 64 whose texts are all as long as the longest."""
    return sum(int(batch.max()) * len(batch) for batch in np.split(tokens[order], range(64, len(order), 64)))


def test_lines_with_signs_and_numbers_need_less_padding_than_by_their_bytes(lengths):
    lines = [line for line in "\n".join(pydoc_data.topics.topics.values()).splitlines() if line.strip()]
    tokens = np.array([len(re.findall(r"[^\W\d_]{1,8}|[^\s\w]|[\d_]", line)) for line in lines])
    by_bytes = padded(tokens, np.argsort([len(line.encode()) for line in lines], kind="stable"))
    estimated = padded(tokens, np.argsort(lengths.estimate(pa.array(lines)), kind="stable"))
    assert estimated < 0.75 * by_bytes


def run(job, model, monkeypatch, tmp_path, out, lines: list[str], own: Callable[[Any, list[str]], Any], **options):
    """Run the job with a model that has this method `lengths`; return its exit code and the batches of the model."""
    batches: list[list[str]] = []
    predict = model.predict
    monkeypatch.setattr(model, "predict", lambda self, batch: batches.append(batch) or predict(self, batch))
    monkeypatch.setattr(model, "lengths", own, raising=False)
    source = write_jsonl(tmp_path / "a.jsonl", lines)
    given = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    return job("--input", source, "--output", out.path, *given), batches


def test_the_model_says_which_texts_share_a_batch(job, model, monkeypatch, tmp_path, out):
    asked: list[int] = []

    def own(self, texts):
        asked.append(len(texts))
        return [int(text.split()[-1]) for text in texts]

    monkeypatch.setattr(model, "examples", ("number 1", "number 2"))
    lines = [f"{'a long number' if n % 3 else 'number'} {n * 7919 % 2500}" for n in range(2500)]
    code, batches = run(job, model, monkeypatch, tmp_path, out, lines, own, batch_size=100)
    assert code == 0
    assert [row["text"] for row in out.rows()] == lines, "the result is in the order of the input"
    numbers = [int(text.split()[-1]) for batch in batches[1:] for text in batch]
    assert numbers == sorted(numbers, reverse=True)
    assert sum(asked) == 2500 + len(model.examples)
    assert max(asked) <= 1024, "a tokenizer would need too much memory"


def test_a_text_whose_length_the_model_cannot_say_costs_nothing_but_padding(
    job, model, monkeypatch, tmp_path, out, capsys
):
    def own(self, texts):
        return [len(text) if "odd" not in text else 1 // 0 for text in texts]

    lines = [f"line {n}" if n % 50 else "odd" for n in range(200)]
    code, _ = run(job, model, monkeypatch, tmp_path, out, lines, own, part_rows=40)
    said = capsys.readouterr().err
    assert code == 0
    assert [row["text"] for row in out.rows()] == lines
    assert said.count("`lengths` of the model fails, so that batches hold more padding: ZeroDivisionError") == 1, said


UNUSABLE: dict[str, tuple[Callable[[list[str]], Any], str]] = {
    "one too few": (lambda texts: [1] * (len(texts) - 1), "int64 of shape (1,) for 2 texts"),
    "no numbers": (lambda texts: ["1"] * len(texts), "<U1 of shape (2,) for 2 texts"),
    "halves": (lambda texts: [0.5] * len(texts), "float64 of shape (2,) for 2 texts"),
    "lists": (lambda texts: [[1, 2]] * len(texts), "int64 of shape (2, 2) for 2 texts"),
    "an error": (lambda texts: 1 // 0, "`lengths` fails on the model's own examples: ZeroDivisionError"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_lengths_that_cannot_be_used_end_the_job_before_any_work(job, model, monkeypatch, tmp_path, out, capsys, case):
    answer, said = UNUSABLE[case]
    code, batches = run(job, model, monkeypatch, tmp_path, out, ["x"], lambda self, texts: answer(texts))
    assert code == 78
    assert said in capsys.readouterr().err
    assert len(batches) == 1, "the model's examples alone"


def test_too_few_lengths_in_the_midst_of_the_work_end_the_job(job, model, monkeypatch, tmp_path, out, capsys):
    code, _ = run(job, model, monkeypatch, tmp_path, out, ["x"] * 9, lambda self, texts: [1, 1][: len(texts)])
    assert code == 78
    assert "int64 of shape (2,) for 9 texts" in capsys.readouterr().err
    assert not out.complete


def test_stopped_while_the_model_says_its_lengths(job, model, monkeypatch, tmp_path, out):
    def own(self, texts):
        if len(texts) > len(self.examples):
            os.kill(os.getpid(), signal.SIGTERM)
        return list(map(len, texts))

    lines = [f"line {n}" for n in range(1500)]
    code, batches = run(job, model, monkeypatch, tmp_path, out, lines, own)
    assert (code, len(batches)) == (143, 1), "no batch of a part is begun after the signal"
    monkeypatch.setattr(model, "lengths", lambda self, texts: list(map(len, texts)))
    assert job("--input", tmp_path / "a.jsonl", "--output", out.path) == 0
    assert [row["text"] for row in out.rows()] == lines


def test_what_did_not_fit_is_remembered_by_the_lengths_of_the_model(job, model, monkeypatch, tmp_path, out):
    """The text says how much room it takes, which its bytes do not."""
    sizes: list[tuple[int, bool]] = []
    predict = model.predict

    def limited(self, batch):
        fits = len(batch) * max(map(int, batch), default=0) <= 4000
        sizes.append((len(batch), fits))
        if not fits:
            raise MemoryError("no room")
        return predict(self, batch)

    monkeypatch.setattr(model, "predict", limited)
    monkeypatch.setattr(model, "examples", ("0001", "0002"))
    lines = [f"{n * 7919 % 500:04}" for n in range(600)]
    own: Callable[[Any, list[str]], list[int]] = lambda self, texts: list(map(int, texts))  # noqa: E731
    code, _ = run(job, model, monkeypatch, tmp_path, out, lines, own, batch_size=64, part_rows=150)
    assert code == 0
    failed = [size for size, fits in sizes if not fits]
    assert 1 <= len(failed) <= 12, f"{len(failed)} of {len(sizes)} batches did not fit: what did not fit was forgotten"
    assert max(size for size, fits in sizes if fits) > 16, "short texts must not pay for long ones"
