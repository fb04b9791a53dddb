"""Columns whose types drift: a value comes out as it went in, or its row is in quarantine; none is changed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.batch.conftest import Job, Output, write_jsonl
from tests.sampling import every, sampled

LARGE = 2**53 + 1
OPTIONS = ("--on-error", "quarantine", "--max-bad", 1, "--keep", "id")
# More than the rows that the types of a JSON Lines file are told from.
LATE = 1001


def write_ids(path: Path, values: list[Any]) -> Path:
    """Write rows of JSON Lines with these values; "absent" leaves the column out."""
    rows = [{"text": f"row {n}"} | ({} if v == "absent" else {"id": v}) for n, v in enumerate(values)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def same(a: Any, b: Any) -> bool:
    """Tell whether a value has come out as it went in: 5 and 5.0 are the same number, True and 1 are not."""
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


def check_kept(output: Output, values: list[Any]) -> None:
    """Fail unless each value is in the output as it was, or its row in quarantine."""
    kept = {row["row"]: row["id"] for row in output.rows()}
    bad = {row["row"] for row in output.quarantined()}
    assert kept.keys() | bad == set(range(len(values))), "rows are missing"
    assert not kept.keys() & bad, "rows are both in the output and in quarantine"
    changed = {n: (values[n], v) for n, v in kept.items() if not same(None if values[n] == "absent" else values[n], v)}
    assert not changed, f"values changed: {changed}"
    schemas = {str(pq.read_schema(path)) for path in (output.path / "data").iterdir()}
    assert len(schemas) == 1, schemas


def check_verdicts(job: Job, folder: Path, values: list[Any], bad: set[int], first: int) -> None:
    """Fail unless each row has the same verdict when it is alone behind the first ones, which tell the types."""
    for number in range(first, len(values)):
        alone = Output(folder / f"alone-{number}")
        source = write_ids(folder / f"alone-{number}.jsonl", [*values[:first], values[number]])
        assert job("--input", source, "--output", alone.path, *OPTIONS) == 0
        assert ({row["row"] for row in alone.quarantined()} == {first}) == (number in bad), values[number]


@pytest.mark.parametrize(
    ("first", "late", "bad"),
    [
        ([7], [5.5, 8], []),
        ([7], [LARGE, 5.5], [LARGE]),
        ([LARGE], [5.5, 5.0, 8, LARGE + 1], [5.5]),
        ([12345678901234567890], [98765432109876543210, 5, -1], []),
        ([LARGE], [98765432109876543210], []),
        ([10**19 + 1], [10**19 + 2], []),
        ([0.5], [3, LARGE], [LARGE]),
        ([True], [1, 0.0, False], [1, 0.0]),
        (["a"], [1, True, "b", {"x": 1}], [1, True, {"x": 1}]),
        ([1], ["1", True, [1], None, "absent"], ["1", True, [1]]),
        ([None], ["a", 5], [5]),
    ],
)
def test_values_that_drift_in_json(job, tmp_path, first, late, bad):
    values = [*first * LATE, *late]
    source, out = write_ids(tmp_path / "a.jsonl", values), Output(tmp_path / "out")
    assert job("--input", source, "--output", out.path, *OPTIONS, "--part-rows", 500) == 0
    check_kept(out, values)
    assert [values[row["row"]] for row in out.quarantined()] == bad


NUMBERS = st.sampled_from(
    [0, 1, -7, 5.5, 2.0, 2**31, 2**53, LARGE, -LARGE, 2**63 - 1, 2**63, 10**19 + 1, 10**20 + 1, 1e300]
)
VALUES = NUMBERS | st.sampled_from([None, "absent", True, False, "", "7", "2020-01-01", [1], {"a": 1}, 10**40])


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(NUMBERS, min_size=1, max_size=3) | st.lists(VALUES.filter(lambda v: not isinstance(v, list | dict)),
       min_size=1, max_size=3), st.lists(NUMBERS | VALUES, max_size=8), st.integers(1, 4))  # fmt: skip
def test_random_tables_keep_their_values(job, tmp_path_factory, first, late, part_rows):
    folder = tmp_path_factory.mktemp("random")
    first = [*first, *first[:1] * LATE]
    if set(map(str, first)) == {"absent"}:
        return
    # All that tells the types in one part, the others cut in every way.
    sources = [write_ids(folder / "a.jsonl", first), write_ids(folder / "b.jsonl", late)]
    out = Output(folder / "out")
    assert job("--input", *sources, "--output", out.path, *OPTIONS, "--part-rows", part_rows * 300) == 0
    kept = [(row["file"], row["row"], row["id"]) for row in out.rows()]
    bad = [(row["file"], row["row"]) for row in out.quarantined()]
    names = {("a.jsonl", n): v for n, v in enumerate(first)} | {("b.jsonl", n): v for n, v in enumerate(late)}
    assert {(f, r) for f, r, _ in kept} | set(bad) == names.keys()
    changed = [(names[f, r], v) for f, r, v in kept if not same(None if names[f, r] == "absent" else names[f, r], v)]
    assert not changed, f"values changed: {changed}"


def test_a_verdict_does_not_depend_on_the_neighbours(job, tmp_path):
    first = [1, 2] * 600
    late = [5.5, LARGE, 2**63, "7", True, None, 2.0, -LARGE]
    source, out = write_ids(tmp_path / "a.jsonl", [*first, *late]), Output(tmp_path / "out")
    assert job("--input", source, "--output", out.path, *OPTIONS) == 0
    check_verdicts(job, tmp_path, [*first, *late], {row["row"] for row in out.quarantined()}, len(first))


TRICKY = [
    b'{"text": "a\\ud800"}',
    b'{"text": "a", "other": NaN}',
    b'{"text": "a", "other": "\xff"}',
    b'{"text": "a", "text": "b"}',
    b' {"text": "a"} ',
    b'{"text": "a"}\r',
    b'{"text": "a"} {"text": "b"}',
    b'{"text": "a", "other": 1e999}',
    b'{"text": "a", "other": ' + b"[" * 2000 + b"]" * 2000 + b"}",
]


def test_a_line_is_read_the_same_beside_every_other(job, tmp_path):
    """Two parsers read JSON; which of them reads a line may not depend on what stands around it."""
    alone, lines = {}, [b'{"text": "fine"}', *TRICKY]
    for number, line in enumerate(lines):
        out = Output(tmp_path / f"alone-{number}")
        (tmp_path / "one.jsonl").write_bytes(b'{"text": "first"}\n' + line + b"\n")
        assert job("--input", tmp_path / "one.jsonl", "--output", out.path, *OPTIONS[:4]) == 0
        alone[number] = [row["text"] for row in out.rows()[1:]]
    for order in (lines, lines[::-1]):
        out = Output(tmp_path / f"all-{order[0][2:6].decode()}-{len(list(tmp_path.iterdir()))}")
        (tmp_path / "all.jsonl").write_bytes(b'{"text": "first"}\n' + b"\n".join(order) + b"\n")
        assert job("--input", tmp_path / "all.jsonl", "--output", out.path, *OPTIONS[:4]) == 0
        rows = {row["row"]: row["text"] for row in out.rows()}
        for number, line in enumerate(order, 1):
            assert (
                [rows[number]] * (number in rows) == alone[lines.index(line)]
                if number in rows
                else not alone[lines.index(line)]
            ), line


PARQUET = {
    "wider": (pa.array([1, 2], pa.int8()), pa.array([LARGE], pa.int64()), 1),
    "fractions": (pa.array([1, 2]), pa.array([5.5, 3.0]), 0),
    "fractions among ids": (pa.array([LARGE, 2]), pa.array([5.5, 3.0]), 1),
    "ids among fractions": (pa.array([0.5]), pa.array([LARGE, 3]), 1),
    "float32": (pa.array([0.5], pa.float32()), pa.array([0.1]), 0),
    "halves among ids": (pa.array([LARGE, 2]), pa.array([5.5, 3.0], pa.float16()), 1),
    "unsigned": (pa.array([LARGE]), pa.array([2**64 - 1, 1], pa.uint64()), 0),
    "ids among fractions, unsigned": (pa.array([3]), pa.array([2**64 - 1, 1], pa.uint64()), 1),
    "times": (pa.array([1], pa.timestamp("s")), pa.array([1], pa.timestamp("us")), 0),
    "words of other libraries": (pa.array(["a"]), pa.array(["b"], pa.large_string()), 0),
}


@pytest.mark.parametrize("case", sampled(PARQUET, every(3)))
def test_files_of_parquet_whose_types_differ(job, tmp_path, out, case):
    first, second, bad = PARQUET[case]
    for name, ids in (("a", first), ("b", second)):
        pq.write_table(pa.table({"text": ["x"] * len(ids), "id": ids}), tmp_path / f"{name}.parquet")
    source = (tmp_path / "a.parquet", tmp_path / "b.parquet")
    assert job("--input", *source, "--output", out.path, *OPTIONS) == 0
    given = [*first.to_pylist(), *second.to_pylist()]
    kept = [row["id"] for row in out.rows()]
    assert len(kept) + len(out.quarantined()) == len(given)
    assert len(out.quarantined()) == (1 if case == "wider" else bad)
    assert all(any(same(value, v) for v in given) for value in kept), kept
    assert len({str(pq.read_schema(path)) for path in (out.path / "data").iterdir()}) == 1


ANSWERS: dict[str, tuple[Any, Any, Any]] = {
    "a fraction": (0, 0.5, 0.5),
    "a whole number": (0.5, 3, 3),
    "unsigned 64-bit numbers": (np.uint64(3), np.uint64(2**64 - 1), 2**64 - 1),
    "a number of 64 bits": (2**60 + 1, 2**63 + 1, 2**63 + 1),
    "a key seen late": ({"a": 1}, {"a": 2, "b": "x"}, {"a": 2, "b": "x"}),
    "a nested key seen late": ([{"a": 1}], [{"b": [1.5]}], [{"a": None, "b": [1.5]}]),
    "a list that gets fractions": ([1, 2], [0.5], [0.5]),
    "nothing": (1, None, None),
    "a float of NumPy": (0, np.float32(0.1), float(np.float32(0.1))),
}


@pytest.mark.parametrize("case", sampled(ANSWERS, every(3)))
def test_answers_whose_types_drift(job, model, tmp_path, out, monkeypatch, case):
    first, late, result = ANSWERS[case]
    monkeypatch.setattr(model, "predict", lambda self, b: [{"a": late if "late" in t else first} for t in b])
    source = write_jsonl(tmp_path / "a.jsonl", ["x"] * 5 + ["late"])
    assert job("--input", source, "--output", out.path, "--part-rows", 2) == 0
    rows = out.rows()
    assert rows[5]["a"] == result
    plain = first.tolist() if hasattr(first, "tolist") else first
    assert [row["a"] for row in rows[:5]] == [plain] * 5 or case in ("a key seen late", "a nested key seen late")
    assert len({str(pq.read_schema(path)) for path in (out.path / "data").iterdir()}) == 1


@pytest.mark.parametrize(
    ("first", "late"),
    [(1, True), (True, 1), (0.5, True), ("a", b"a"), ("a", 1), (1, LARGE), ([0.5], [True]), ([0.5], {1.5}), ([1], {2})],
)
def test_answers_that_would_be_changed_are_bad_rows(job, model, tmp_path, out, monkeypatch, first, late):
    monkeypatch.setattr(model, "predict", lambda self, b: [{"a": late if "late" in t else first} for t in b])
    source = write_jsonl(tmp_path / "a.jsonl", ["x", "late", "y"])
    assert job("--input", source, "--output", out.path, "--on-error", "quarantine", "--max-bad", 1) == 0
    assert [row["row"] for row in out.quarantined()] == [1]
    assert [row["a"] for row in out.rows()] == [first, first]


def test_a_set_as_answer_is_refused_at_once(job, model, tmp_path, out, monkeypatch, capsys):
    monkeypatch.setattr(model, "predict", lambda self, b: [{"a": {"x", "y"}} for _ in b])
    assert job("--input", write_jsonl(tmp_path / "a.jsonl", ["x"]), "--output", out.path) == 78
    assert "a set has no order" in capsys.readouterr().err


@pytest.mark.parametrize("step", sampled(["remember", "write"], ["write"]))
def test_killed_while_the_parts_get_one_type(job, tmp_path, monkeypatch, step):
    """At each of the writes: the record that knows both checksums, and the part."""
    source = write_ids(tmp_path / "a.jsonl", [*[1] * LATE, *[0.5] * 10])
    arguments = ("--input", source, *OPTIONS, "--part-rows", 100)
    whole, out = Output(tmp_path / "whole"), Output(tmp_path / "out")
    assert job(*arguments, "--output", whole.path) == 0
    publishing = job.module("publishing")
    real, count = publishing._rewritten, [0]

    def killed(store, ledger, record, schema):
        count[0] += 1
        if count[0] == 3:
            target = ledger if step == "remember" else store
            monkeypatch.setattr(target, step, lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        return real(store, ledger, record, schema)

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "_rewritten", killed)
        with pytest.raises(KeyboardInterrupt):
            job(*arguments, "--output", out.path)
    assert not out.complete
    monkeypatch.undo()
    assert job(*arguments, "--output", out.path) == 0
    assert out.digest() == whole.digest()
    assert ds.dataset(out.path / "data").schema.field("id").type == pa.float64()


def test_views_are_texts_and_bytes(job, tmp_path, out):
    """As Polars and others write them; pyarrow can neither pick rows of such a column nor sort by it."""
    texts = ["a", "RAISE", "c"]
    columns = {
        "text": pa.array(texts, pa.string_view()),
        "city": pa.array(["Ulm", None, "Bonn"], pa.string_view()),
        "raw": pa.array([b"\xff", b"", None], pa.binary_view()),
        "tags": pa.array([["x"], [], ["y", None]], pa.list_(pa.string_view())),
        "deep": pa.array([{"a": "x"}, None, {"a": None}], pa.struct([("a", pa.string_view())])),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    options = ("--keep", "text,city,raw,tags,deep", "--on-error", "quarantine", "--max-bad", 1)
    assert job("--input", tmp_path / "a.parquet", "--output", out.path, *options) == 0
    for row, number in zip(out.rows(), (0, 2), strict=True):
        assert {name: row[name] for name in columns} == {name: columns[name][number].as_py() for name in columns}
    folders = tmp_path / "folders"
    assert job("--input", tmp_path / "a.parquet", "--output", folders, *options, "--partition-by", "city") == 0
    assert sorted(path.name for path in (folders / "data").iterdir()) == ["city=Bonn", "city=Ulm"]
