"""Input and output in an object store: few requests, no mixture of two versions, nothing left of a failed start."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.batch.conftest import Output
from tests.batch.object_store import Objects, object_store
from tests.batch.test_watched_input import at_call
from tests.sampling import sampled

FILES = 100
# Its version and its content, its version before the part is written and before the result is published.
REQUESTS = {"jsonl": 4, "parquet": 7}


@pytest.fixture
def objects() -> Iterator[Objects]:
    """Return an object store."""
    with object_store() as found:
        yield found


def content(kind: str, number: int) -> bytes:
    """Return a small file of three rows."""
    if kind == "jsonl":
        return "".join(f'{{"text": "{number} {row}"}}\n' for row in range(3)).encode()
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": [f"{number} {row}" for row in range(3)]}), sink)
    return sink.getvalue()


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("files", sampled([FILES, 10], [10]))
def test_few_requests_for_each_small_object(job, objects, out, kind, files):
    for number in range(files):
        objects.put(f"in/{number:03d}.{kind}", content(kind, number))
    assert job("--input", objects.uri("in"), "--output", out.path) == 0
    assert [row["text"] for row in out.rows()] == [f"{n} {row}" for n in range(files) for row in range(3)]
    worst = max(objects.times_asked(f"in/{number:03d}.{kind}") for number in range(1, files))
    assert worst <= REQUESTS[kind], [one for one in objects.asked if one[1] == f"in/001.{kind}"]
    assert len(objects.asked) <= files * REQUESTS[kind] + 40


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_an_object_that_is_replaced_while_it_is_read(job, model, monkeypatch, objects, out, kind, capsys):
    """Of the same size, in the same second: only its version tells."""
    objects.put("in/a." + kind, content(kind, 1), at=1000)
    # The first call is for the examples.
    at_call(model, monkeypatch, 2, lambda: objects.put("in/a." + kind, content(kind, 2), at=1000))
    assert job("--input", objects.uri("in"), "--output", out.path) == 78
    assert "has changed during the run: its version was" in capsys.readouterr().err
    assert not out.complete


@pytest.mark.slow
def test_an_object_that_is_replaced_between_two_requests_for_it(job, objects, tmp_path, capsys):
    """Whenever that is, no result mixes both: pyarrow asks for each piece of a large object without a condition."""
    old, new = (f'{{"text": "{word} {"x" * 90}"}}\n'.encode() * 100_000 for word in ("old", "new"))
    place, seen, moment = "in/a.jsonl", [], 0

    def replace(method: str, key: str) -> None:
        seen.extend([key] if (method, key) == ("GET", place) else [])
        if len(seen) == moment:
            objects.there[place] = (new, 1000)

    def run() -> tuple[int, Output]:
        out = Output(tmp_path / f"out-{moment}")
        objects.put(place, old, at=1000)
        seen.clear()
        return job("--input", objects.uri("in"), "--output", out.path, "--part-rows", 60_000), out

    objects.after = replace
    assert run()[0] == 0
    codes = []
    for moment in range(1, len(seen)):
        code, out = run()
        codes.append(code)
        found = {row["text"][:3] for row in out.rows()} if code == 0 else set()
        assert len(found) == (code == 0), f"replaced after request {moment}: {found}"
        assert code in (0, 78)
    assert codes.count(78) > 1, codes
    assert "has changed during the run: its version was" in capsys.readouterr().err


def test_an_object_that_is_replaced_between_two_workers(job, objects, out, capsys):
    arguments = ("--input", objects.uri("in"), "--output", out.path, "--part-rows", 2)
    for shard, number, code in (("0/2", 1, 0), ("1/2", 2, 78)):
        objects.put("in/a.jsonl", content("jsonl", number), at=1000.5)
        assert job(*arguments, "--shard", shard) == code
    assert "a.jsonl has changed during the run: " in capsys.readouterr().err
    assert not out.complete


def test_the_output_is_in_the_store_too(job, objects):
    for number in range(3):
        objects.put(f"in/{number}.parquet", content("parquet", number))
    arguments = ("--input", objects.uri("in"), "--output", objects.uri("out"), "--on-error", "quarantine")
    assert job(*arguments) == 0
    parts = sorted(key for key in objects.there if key.startswith("out/data/") and key.endswith(".parquet"))
    assert "out/_SUCCESS" in objects.there
    found = [pq.read_table(io.BytesIO(objects.there[key][0]))["text"].to_pylist() for key in parts]
    assert [text for part in found for text in part] == [f"{n} {row}" for n in range(3) for row in range(3)]
    del objects.there[parts[1]], objects.there["out/_SUCCESS"]
    assert job(*arguments) == 0
    assert parts[1] in objects.there
