"""What the job does with a model that runs out of memory, fails, or answers strangely."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from gpu_repo_runtime.inputs import InvalidInput

from tests.batch.conftest import PACKAGE, texts, write_jsonl
from tests.runtime.standin_model import lose_device
from tests.sampling import every, sampled


def test_sorted_by_length_and_given_back_in_order(job, model, tmp_path, out, monkeypatch):
    seen: list[list[int]] = []
    predict = model.predict
    monkeypatch.setattr(model, "predict", lambda self, b: seen.append([len(t) for t in b]) or predict(self, b))
    lines = ["word " * (number * 7919 % 97) for number in range(200)]
    source = write_jsonl(tmp_path / "a.jsonl", lines)
    assert job("--input", source, "--output", out.path, "--batch-size", 16, "--part-rows", 80) == 0
    assert [row["text"] for row in out.rows()] == lines
    parts = seen[1:]
    assert [len(batch) for batch in parts] == [16] * 5 + [16] * 5 + [16, 16, 8]
    first = [length for batch in parts[:5] for length in batch]
    assert first == sorted(first, reverse=True), "the longest come first"


def test_out_of_memory_halves_the_batch_and_remembers(job, model, tmp_path, out, monkeypatch):
    room, calls = 4000, []
    predict = model.predict

    def limited(self, batch):
        size = len(batch) * max(map(len, batch))
        calls.append((len(batch), max(map(len, batch)), size > room))
        if size > room:
            raise MemoryError("no room")
        return predict(self, batch)

    monkeypatch.setattr(model, "predict", limited)
    lines = texts(600)
    source = write_jsonl(tmp_path / "a.jsonl", lines)
    assert job("--input", source, "--output", out.path, "--batch-size", 64, "--part-rows", 150) == 0
    assert [row["text"] for row in out.rows()] == lines
    failed = [call for call in calls if call[2]]
    assert 1 <= len(failed) <= 12, f"{len(failed)} of {len(calls)} batches did not fit: what did not fit was forgotten"
    assert max(size for size, _, _ in calls[2:]) > 16, "short texts must not pay for long ones"


def test_a_row_too_large_for_the_memory_is_a_bad_row(job, model, tmp_path, out, monkeypatch):
    predict = model.predict

    def limited(self, batch):
        if max(map(len, batch)) > 5000:
            raise MemoryError("no room")
        return predict(self, batch)

    monkeypatch.setattr(model, "predict", limited)
    lines = ["x" * 9000 if n == 33 else "word " * (n * 7 % 11) + str(n) for n in range(100)]
    source = write_jsonl(tmp_path / "a.jsonl", lines)
    assert job("--input", source, "--output", out.path, "--on-error", "quarantine") == 0
    said = [(n, f"{len(line)} characters") for n, line in enumerate(lines) if n != 33]
    assert [(row["row"], row["label"]) for row in out.rows()] == said, "each answer is with its row"
    [bad] = out.quarantined()
    assert (bad["row"], bad["reason"]) == (33, "memory ran out for this row alone: MemoryError: no room")


def test_a_lost_gpu_ends_the_process_and_keeps_what_is_done(job, model, tmp_path, out, monkeypatch, capsys):
    predict = model.predict
    parts = [0]

    def lost(self, batch):
        parts[0] += 1
        if parts[0] == 5:
            lose_device()
        return predict(self, batch)

    source = write_jsonl(tmp_path / "a.jsonl", texts(60))
    arguments = ("--input", source, "--output", out.path, "--part-rows", 10, "--on-error", "quarantine")
    with monkeypatch.context() as patch:
        patch.setattr(model, "predict", lost)
        assert job(*arguments) == 1
    assert "the GPU is lost" in capsys.readouterr().err
    assert len(list(out.path.glob("_parts/*.parquet"))) == 3
    assert job(*arguments) == 0
    assert len(out.rows()) == 60


ANSWERS: dict[str, tuple[Any, int, str]] = {
    "one too few": (lambda batch: [{"a": 1}] * (len(batch) - 1), 78, "predict returned 1 answers for 2 inputs"),
    "a column that is there": (
        lambda batch: [{"text": "x"}] * len(batch),
        78,
        "both have a column 'text'",
    ),
    "nothing": (lambda batch: [{}] * len(batch), 78, "empty"),
    "an object": (lambda batch: [{"a": object()}] * len(batch), 78, "cannot be a column 'a'"),
    "None": (lambda batch: None, 78, "predict returned None"),
    "a generator": (lambda batch: ({"a": 1} for _ in batch), 78, "predict returned generator"),
    "an array": (lambda batch: np.zeros(len(batch)), 78, "predict returned ndarray"),
    "one dict for all": (lambda batch: {"a": [1] * len(batch)}, 78, "predict returned dict"),
    "a key that is no text": (lambda batch: [{1: 2}] * len(batch), 78, "which is not an Output"),
    "numbers": (lambda batch: [1.0] * len(batch), 78, "predict returned float, which is not an Output"),
    "an error at once": (lambda batch: 1 / 0, 78, "fails on its own examples: ZeroDivisionError"),
}


@pytest.mark.parametrize("case", sampled(ANSWERS, every(3)))
def test_answers_that_cannot_be_used(job, model, tmp_path, out, monkeypatch, capsys, case):
    answer, code, said = ANSWERS[case]
    monkeypatch.setattr(model, "predict", lambda self, batch: answer(batch))
    source = write_jsonl(tmp_path / "a.jsonl", ["x"])
    assert job("--input", source, "--output", out.path) == code
    assert said in capsys.readouterr().err


def test_an_input_that_the_model_rejects_is_put_aside_with_its_message(job, model, tmp_path, out, monkeypatch):
    predict = model.predict

    def rejects(self, batch):
        if "blurred" in batch:
            raise InvalidInput("the image\nis blurred")
        return predict(self, batch)

    monkeypatch.setattr(model, "predict", rejects)
    source = write_jsonl(tmp_path / "a.jsonl", ["sharp", "blurred", "sharp"])
    assert job("--input", source, "--output", out.path, "--on-error", "quarantine", "--max-bad", 0.5) == 0
    assert [(row["row"], row["reason"]) for row in out.quarantined()] == [(1, "the image is blurred")]
    assert [row["row"] for row in out.rows()] == [0, 2]


DAY, MOMENT = date(2020, 1, 2), datetime(2020, 1, 2, 3, 4, 5)
UTC_MOMENT = MOMENT.replace(tzinfo=UTC)
TIMES: dict[str, tuple[Any, Any, bool]] = {
    "a datetime among dates": (DAY, MOMENT, False),
    "a date among datetimes": (MOMENT, DAY, False),
    "a zone among none": (MOMENT, UTC_MOMENT, False),
    "none among zones": (UTC_MOMENT, MOMENT, False),
    "another zone": (UTC_MOMENT, UTC_MOMENT.astimezone(timezone(timedelta(hours=2))), True),
    "inside of objects": ({"at": DAY}, {"at": MOMENT}, False),
    "inside of lists": ([DAY], [MOMENT], False),
    "in one list": ([DAY], [DAY, MOMENT], False),
    "a zone inside of objects": ({"at": MOMENT}, {"at": UTC_MOMENT}, False),
    "two places of an object": ({"a": DAY, "b": MOMENT}, {"a": DAY, "b": MOMENT}, True),
    "a time of day with a zone": (time(1), time(1, tzinfo=UTC), False),
    "NumPy's nanoseconds": (MOMENT, np.datetime64("2020-01-02T03:04:05.123456789"), False),
}


@pytest.mark.parametrize("batch_size", sampled([1, 64], [1]))
@pytest.mark.parametrize("case", sampled(TIMES, every(3)))
def test_no_date_or_time_is_changed(job, model, tmp_path, out, monkeypatch, case, batch_size):
    """Each alone and beside others: pyarrow would cut a datetime to its date where a date comes before it."""
    first, late, fits = TIMES[case]
    monkeypatch.setattr(model, "predict", lambda self, batch: [{"when": late if "late" in t else first} for t in batch])
    source = write_jsonl(tmp_path / "a.jsonl", ["x", "y", "late", "z"])
    options = ("--on-error", "quarantine", "--max-bad", 0.5, "--batch-size", batch_size)
    assert job("--input", source, "--output", out.path, *options) == 0
    assert [row["row"] for row in out.quarantined()] == ([] if fits else [2])
    for row in out.rows():
        assert row["when"] == (late if row["text"] == "late" else first), case


def test_a_model_that_breaks_later_is_no_bad_input(job, model, tmp_path, out, monkeypatch, capsys):
    predict, calls = model.predict, [0]

    def breaks(self, batch):
        calls[0] += 1
        if calls[0] > 3:
            raise ValueError("no weights")
        return predict(self, batch)

    monkeypatch.setattr(model, "predict", breaks)
    source = write_jsonl(tmp_path / "a.jsonl", texts(50))
    assert job("--input", source, "--output", out.path, "--part-rows", 10, "--on-error", "skip") == 1
    assert "fails on its own examples now" in capsys.readouterr().err


def test_a_batch_that_fails_none_of_whose_rows_does_is_said_once(job, model, tmp_path, out, monkeypatch, capsys):
    predict = model.predict

    def small(self, batch):
        return predict(self, batch if len(batch) <= 5 else batch["surface"])

    monkeypatch.setattr(model, "predict", small)
    assert job("--input", write_jsonl(tmp_path / "a.jsonl", texts(64)), "--output", out.path) == 0
    [told] = [line for line in capsys.readouterr().err.splitlines() if "predict fails on" in line]
    assert "8 rows, not on half of them" in told
    assert "TypeError: " in told
    assert len(out.rows()) == 64


def test_a_model_that_cannot_be_imported(made, tmp_path, out, capsys):
    source = write_jsonl(tmp_path / "a.jsonl", ["x"])
    assert made("import nothing_of_this_name\n")("--input", source, "--output", out.path) == 78
    assert "model.py cannot be imported: No module named 'nothing_of_this_name'" in capsys.readouterr().err


def test_provenance_tells_how_to_make_it_again(job, tmp_path, out):
    source = write_jsonl(tmp_path / "a.jsonl", texts(30))
    arguments = ("--input", source, "--output", out.path, "--part-rows", 10)
    assert job(*arguments, "--shard", "0/2") == 0
    assert job(*arguments, "--shard", "1/2") == 0
    story = out.read_json("_provenance.json")
    assert story["command"].startswith(f"python -m gpu_repo_runtime.batch {PACKAGE} run --input {source}")
    assert (story["rows"], story["written"], story["bad"]) == (30, 30, 0)
    assert (story["input"]["files"], story["input"]["bytes"]) == (1, source.stat().st_size)
    assert story["packages"]["pyarrow"]
    assert story["device"]["device"] == "cpu"
    assert len(story["code"]["sha256"]) == 64
    assert story["parameters"]["part_rows"] == 10
