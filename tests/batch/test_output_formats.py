"""The result as JSON Lines, CSV or Parquet, and in folders by the values of columns: complete, atomic, made again."""

from __future__ import annotations

import csv
import decimal
import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.batch.conftest import Output, texts, write_jsonl, write_parquet

CITIES = ["Ulm", "a/b", "Köln = Cologne", "", None, "__HIVE_DEFAULT_PARTITION__", "..", "50 %"]
READ_AS = {"": None, "__HIVE_DEFAULT_PARTITION__": None}


def digest(out: Output) -> dict[str, bytes]:
    """Return every file of the result, and the manifest."""
    files = [path for path in (out.path / "data").rglob("*") if path.is_file()]
    return {path.relative_to(out.path).as_posix(): path.read_bytes() for path in [*files, out.path / "_manifest.json"]}


def written(out: Output, form: str) -> list[dict[str, Any]]:
    """Return the rows of all files in their order."""
    assert out.complete
    found: list[dict[str, Any]] = []
    for path in sorted((out.path / "data").iterdir()):
        assert path.suffix == f".{form}"
        with path.open(newline="", encoding="utf-8") as file:
            found += csv.DictReader(file) if form == "csv" else map(json.loads, file)
    return found


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_the_rows_are_those_of_parquet(job, tmp_path, out, form):
    source = write_jsonl(tmp_path / "a.jsonl", [*texts(50), 'a "quoted", text\n', "Grüße 🙂", "RAISE", ""])
    arguments = ("--input", source, "--part-rows", 10, "--keep", "id,text", "--on-error", "quarantine")
    assert job(*arguments, "--output", out.path, "--output-format", form) == 0
    assert job(*arguments, "--output", tmp_path / "parquet") == 0
    wanted = Output(tmp_path / "parquet").rows()
    if form == "csv":
        wanted = [{key: str(value) for key, value in row.items()} for row in wanted]
        found = [row | {"score": str(float(row["score"]))} for row in written(out, form)]
    else:
        found = written(out, form)
    assert found == wanted
    assert [bad["row"] for bad in out.quarantined()] == [52]


def test_values_of_every_type_in_json(job, model, tmp_path, out, monkeypatch):
    kept = {
        "whole": pa.array([2**63 - 1, None], pa.int64()),
        "bytes": pa.array([b"\xff\x00", b""]),
        "far": pa.array([-(2**62), 2**62], pa.timestamp("us")),
        "fine": pa.array([1, 2], pa.timestamp("ns")),
        "day": pa.array([0, None], pa.date32()),
        "list": pa.array([[1.5, None], []]),
        "object": pa.array([{"a": 1, "b": "x"}, None]),
        "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
        "nothing": pa.array([float("nan"), float("inf")]),
    }
    pq.write_table(pa.table({"text": ["a", "b"], **kept}), tmp_path / "a.parquet")
    names = ",".join(kept)
    arguments = ("--input", tmp_path / "a.parquet", "--output", out.path, "--keep", names, "--output-format", "jsonl")
    assert job(*arguments) == 0
    one, two = written(out, "jsonl")
    assert (one["whole"], two["whole"]) == (2**63 - 1, None)
    assert (one["bytes"], one["list"], one["object"], one["map"]) == ("/wA=", [1.5, None], {"a": 1, "b": "x"}, {"k": 1})
    assert (one["nothing"], two["nothing"], one["day"]) == (None, None, "1970-01-01")
    assert one["fine"] == "1970-01-01T00:00:00.000000001"
    assert all(isinstance(row["far"], str) for row in (one, two))


def test_bytes_and_decimals_have_one_form_for_a_column(job, tmp_path, out):
    kept = {
        "fixed": pa.array([b"abc", b"\xff\x00\x01"], pa.binary(3)),
        "money": pa.array([decimal.Decimal("1.10"), decimal.Decimal("2.00")], pa.decimal128(9, 2)),
        "id": pa.array([decimal.Decimal(10**25), decimal.Decimal(0)], pa.decimal128(38, 0)),
    }
    pq.write_table(pa.table({"text": ["a", "b"], **kept}), tmp_path / "a.parquet")
    for form in ("jsonl", "csv"):
        own = Output(out.path / form)
        options = ("--keep", ",".join(kept), "--output-format", form)
        assert job("--input", tmp_path / "a.parquet", "--output", own.path, *options) == 0
        one, two = written(own, form)
        assert (one["fixed"], two["fixed"]) == ("YWJj", "/wAB")
        assert (one["money"], two["money"]) == ("1.10", "2.00")
        assert (one["id"], two["id"]) == ((10**25, 0) if form == "jsonl" else (str(10**25), "0"))


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_an_input_without_rows_has_no_folders(job, tmp_path, out, form):
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "a.parquet")
    options = ("--keep", "text", "--partition-by", "text", "--output-format", form)
    assert job("--input", tmp_path / "a.parquet", "--output", out.path, *options) == 0
    assert out.complete
    assert job("--input", tmp_path / "a.parquet", "--output", out.path, *options) == 0


@pytest.fixture
def cities(tmp_path: Path) -> Path:
    """Return a file whose column `city` holds what is awkward in a folder's name."""
    source = tmp_path / "a.jsonl"
    rows = [{"text": text, "city": CITIES[n % len(CITIES)], "n": n % 3} for n, text in enumerate(texts(80))]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return source


def in_folders(out: Output) -> list[tuple[int, Any, Any]]:
    """Return row, city and n of each row, as pyarrow reads the folders."""
    assert out.complete
    kinds = ds.partitioning(pa.schema([("city", pa.string()), ("n", pa.int64())]), flavor="hive")
    table = ds.dataset(out.path / "data", format="parquet", partitioning=kinds).to_table().sort_by("row")
    return list(zip(*(table[name].to_pylist() for name in ("row", "city", "n")), strict=True))


BY_CITY = ("--keep", "city,n,text", "--partition-by", "city,n", "--part-rows", 20)


def test_folders_hold_the_rows_of_their_values(job, cities, out):
    assert job("--input", cities, "--output", out.path, *BY_CITY) == 0
    # Neither Hive nor pyarrow knows a folder for an empty text, nor for their own word for no value.
    assert in_folders(out) == [(n, READ_AS.get(city := CITIES[n % len(CITIES)], city), n % 3) for n in range(80)]
    assert {path.name for path in (out.path / "data").iterdir()} >= {"city=Ulm", "city=a%2Fb", "city=.."}
    columns = pq.read_schema(next((out.path / "data").rglob("*.parquet"))).names
    assert columns == ["file", "row", "text", "label", "score"]


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_folders_in_other_formats(job, cities, out, form):
    assert job("--input", cities, "--output", out.path, *BY_CITY, "--output-format", form) == 0
    files = list((out.path / "data").rglob(f"part-*.{form}"))
    rows = sum(len(path.read_text().splitlines()) - (form == "csv") for path in files)
    assert rows == 80


@pytest.mark.parametrize(
    "options", [BY_CITY, ("--output-format", "jsonl", "--part-rows", 20)], ids=["folders", "jsonl"]
)
def test_a_result_is_checked_repaired_and_the_same_after_a_kill(job, cities, tmp_path, out, options):
    whole = Output(tmp_path / "whole")
    arguments = ("--input", cities, *options, "--batch-size", 4)
    assert job(*arguments, "--output", whole.path) == 0
    process = job.start(*arguments, "--output", out.path, SLOW="0.05")
    while len(list((out.path / "_records").glob("*"))) < 2 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert job(*arguments, "--output", out.path) == 0
    assert digest(out) == digest(whole)
    lost, cut = sorted(path for path in (out.path / "data").rglob("part-*"))[:2]
    lost.unlink()
    cut.write_bytes(cut.read_bytes()[:-1])
    assert job(*arguments, "--output", out.path) == 0
    assert digest(out) == digest(whole)
    assert job.main("check", "--output", out.path) == 0


def test_types_get_wider_in_folders_too(job, tmp_path, out):
    rows = [{"text": "a", "k": n % 2, "v": n if n < 15 else n + 0.5} for n in range(30)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ("--keep", "k,v", "--partition-by", "k", "--part-rows", 10)
    assert job("--input", tmp_path / "a.jsonl", "--output", out.path, *options) == 0
    assert {str(pq.read_schema(path).field("v").type) for path in (out.path / "data").rglob("*.parquet")} == {"double"}
    table = ds.dataset(out.path / "data", format="parquet", partitioning="hive").to_table().sort_by("row")
    assert table["v"].to_pylist() == [row["v"] for row in rows]


def test_what_a_kill_left_in_another_folder_goes(job, cities, out, monkeypatch):
    publish = job.module("publishing").finish
    stale = out.path / "_parts" / "city=Rome" / "part-00000-000001.parquet"

    def finish(*arguments: Any) -> Any:
        stale.parent.mkdir()
        stale.write_bytes(b"left")
        return publish(*arguments)

    monkeypatch.setattr(job.module("job"), "finish", finish)
    assert job("--input", cities, "--output", out.path, *BY_CITY) == 0
    assert not list(out.path.rglob("city=Rome/*"))
    assert len(in_folders(out)) == 80


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--partition-by", "town"), 78, "the output has no column 'town'"),
        (("--partition-by", "score"), 78, "column 'score' holds double"),
        (("--partition-by", "n,n"), 78, "names 'n' twice"),
        (("--output-format", "xml"), 78, "--output-format"),
        (("--partition-by", "text"), 65, "folders for one part"),
    ],
)
def test_what_cannot_be_folders_is_said(job, tmp_path, out, capsys, options, code, said):
    source = write_parquet(tmp_path / "a.parquet", [f"text {n}" for n in range(1200)])
    assert job("--input", source, "--output", out.path, "--keep", "text", *options) == code
    assert said in capsys.readouterr().err


def test_another_format_is_another_plan(job, cities, out, capsys):
    arguments = ("--input", cities, "--output", out.path, "--keep", "city,text")
    assert job(*arguments, "--partition-by", "city", "--shard", "0/2") == 0
    assert job(*arguments, "--output-format", "csv", "--shard", "0/2") == 78
    said = capsys.readouterr().err
    assert "--output-format was parquet, now csv" in said
    assert "--partition-by was ['city'], now not said" in said


@pytest.mark.parametrize("name", ["_x", ".x", "_"])
def test_folders_that_readers_pass_over_are_refused(job, tmp_path, out, capsys, name):
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "t", name: "v"}) + "\n")
    options = ("--keep", name, "--partition-by", name)
    assert job("--input", tmp_path / "a.jsonl", "--output", out.path, *options) == 78
    assert f"readers pass over folders whose names begin with {name[0]}" in capsys.readouterr().err


def test_folders_are_escaped_as_hive_does(job, tmp_path, out):
    """Of %C3%BC, Hive and Spark make two characters; so what is not ASCII stands as it is."""
    values = ["ü", "日本", "a/b", "a%b", "é=ö", "\x7f", "a\nb", "😀", "a b"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": "t", "stadt": v, "größe": v}) + "\n" for v in values))
    options = ("--keep", "stadt,größe", "--partition-by", "stadt,größe")
    assert job("--input", tmp_path / "a.jsonl", "--output", out.path, *options) == 0

    def hive(name: str) -> str:
        """Return a folder's name as Hive and Spark read it: each %XX is one character."""
        return re.sub("%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), name)

    folders = [path.relative_to(out.path / "data").parts[:2] for path in (out.path / "data").rglob("*.parquet")]
    assert {hive(first) for first, _ in folders} == {f"stadt={value}" for value in values}
    assert {hive(second) for _, second in folders} == {f"größe={value}" for value in values}
    read = ds.dataset(out.path / "data", format="parquet", partitioning="hive").to_table()
    assert sorted(read["stadt"].to_pylist()) == sorted(values)
    again = type(out)(tmp_path / "again")
    assert job("--input", out.path / "data", "--output", again.path, "--column", "label", "--keep", "größe") == 0
    assert sorted(row["größe"] for row in again.rows()) == sorted(values)
