"""Inputs of every kind that a model.py describes: tables, lines of JSON, nested documents, images."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.batch.conftest import Output
from tests.batch.made import FORMATS, TABLE, predictions, write
from tests.runtime.kinds import DOCUMENT, IMAGE, ROW
from tests.sampling import every, sampled

UNION = """
    from pydantic import BaseModel

    class Cat(BaseModel):
        lives: int

    class Dog(BaseModel):
        name: str

    Input = Cat | Dog
    Output = str

    class Model:
        examples = (Cat(lives=9),)

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input]) -> list[Output]:
            return [type(one).__name__ for one in batch]
"""


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("part_rows", sampled([2, 100], [2]))
def test_fields_are_columns_whatever_the_format(made, tmp_path, out, name, part_rows):
    rows = [{"id": 7, "age": 70, "city": "Köln"}, {"id": 8, "age": 3}, {"id": 9, "age": 5, "city": "Ulm", "weight": 1}]
    rows[1]["city"] = rows[0]["city"]
    source = write(tmp_path / name, rows)
    arguments = ("--input", source, "--output", out.path, "--keep", "id", "--part-rows", part_rows)
    assert made(TABLE)(*arguments) == 0
    # A table says null where JSON lacks the key: what is empty in a Parquet column that may be null stays null.
    lacking = {"a.parquet": None}.get(name, 70.5)
    said = [f"Köln {lacking} None", f"Köln {lacking} None", "Ulm 1.0 None"]
    assert [(row["text"], int(row["id"])) for row in out.rows()] == [
        (t, n) for t, n in zip(said, (7, 8, 9), strict=True)
    ]
    schema = pq.read_schema(out.path / "data" / "part-00000-000000.parquet")
    assert (str(schema.field("late").type), str(schema.field("kind").type)) == ("double", "string"), "by annotation"


def test_a_null_in_a_field_that_takes_none_is_its_default(made, tmp_path, out):
    source = write(tmp_path / "a.parquet", [{"age": 1, "city": None}, {"age": 2, "city": "Ulm"}])
    assert made(TABLE)("--input", source, "--output", out.path) == 0
    assert [row["text"].split()[0] for row in out.rows()] == ["nowhere", "Ulm"]


def test_a_decimal_comma_is_named(made, tmp_path, out):
    source = write(tmp_path / "a.csv", [{"age": 1, "weight": "70,5"}])
    assert made(TABLE)("--input", source, "--output", out.path, "--on-error", "quarantine", "--max-bad", 1) == 0
    assert "write numbers with a decimal point, not a comma" in out.quarantined()[0]["reason"]


REFUSED: dict[str, tuple[str, list[str], str]] = {
    "no such column": (TABLE, [], "no column 'age'; there are x, y; --columns age=NAME names another"),
    "a column of another name": (TABLE, ["--columns", "age=years"], "no column 'years'; there are x, y"),
    "no such field": (TABLE, ["--columns", "ages=x"], "--columns ages: Input has no such field; it has age"),
    "paths": (TABLE, ["--columns", "age=x", "--files", "photo"], "paths are not opened: write the content into"),
    "a list": (ROW, ["--columns", "x,y"], "write class Input(BaseModel) with a field for each column"),
    "parameters of none": (TABLE, ["--columns", "age=x", "--parameter", "a=1"], "the model has no class Parameters"),
}  # fmt: skip


@pytest.mark.parametrize("case", sampled(REFUSED, every(3)))
def test_what_does_not_fit_is_refused_in_one_line(made, tmp_path, out, capsys, case):
    model, options, said = REFUSED[case]
    source = write(tmp_path / "a.csv", [{"x": 1, "y": 2}])
    assert made(model)("--input", source, "--output", out.path, *options) == 78
    assert said in capsys.readouterr().err
    assert not out.path.joinpath("_plan.json").exists()


LINES: dict[str, tuple[str, str, list[Any]]] = {
    "lists": (ROW, "[1, 2]\n\n[0.5, -1]\n[1, null]\n", [(0, 8.0), (2, -2.0)]),
    "one of several classes": (UNION, '{"lives": 7}\n\n{"name": "Rex"}\n{"wings": 2}\n', [(0, "Cat"), (2, "Dog")]),
}


@pytest.mark.parametrize("kind", LINES)
def test_lines_of_json_are_inputs(made, tmp_path, out, kind):
    model, lines, said = LINES[kind]
    (tmp_path / "a.jsonl").write_text(lines)
    options = ("--on-error", "quarantine", "--max-bad", 0.5)
    assert made(model)("--input", tmp_path / "a.jsonl", "--output", out.path, *options) == 0
    assert [(row["row"], row["prediction"]) for row in out.rows()] == said
    assert [row["row"] for row in out.quarantined()] == [3]


@pytest.mark.parametrize("name", FORMATS)
def test_a_nested_document(made, tmp_path, out, name):
    lines = [{"name": "x", "price": 1.5}, {"name": "y", "price": 2.0, "tags": {"a": "b"}}]
    rows = [{"customer": "a", "lines": lines}, {"customer": "b", "lines": []}]
    model = DOCUMENT.replace("dict[str, str] = {}", "dict[str, str] | None = None")  # Parquet has no missing keys
    assert made(model)("--input", write(tmp_path / name, rows), "--output", out.path) == 0
    first, second = predictions(out)
    assert first["total"] == 3.5
    assert (first["dearest"]["name"], first["dearest"]["price"]) == ("y", 2.0)
    assert dict(first["dearest"]["tags"] or {}) == {"a": "b"}
    assert second == {"total": 0.0, "dearest": None}


PICTURES = {"dark.png": bytes(range(100)), "bright.png": b"\xff" * 50}


def test_images_as_bytes_and_as_datasets_have_them(made, tmp_path, out):
    pq.write_table(pa.table({"image": list(PICTURES.values())}), tmp_path / "a.parquet")
    write(tmp_path / "b.jsonl", [{"image": base64.b64encode(c).decode()} for c in PICTURES.values()])
    assert made(IMAGE)("--input", tmp_path / "*.*", "--output", out.path, "--parameter", "top=2") == 0
    assert [row["labels"] for row in out.rows()] == [["dark", "image"], ["bright", "image"]] * 2
    rows = [{"bytes": content, "path": None} for content in PICTURES.values()]
    pq.write_table(pa.table({"image": rows}), tmp_path / "datasets.parquet")
    datasets = Output(tmp_path / "datasets")
    assert made(IMAGE)("--input", tmp_path / "datasets.parquet", "--output", datasets.path) == 0
    assert [row["labels"] for row in datasets.rows()] == [["dark"], ["bright"]]


def test_a_path_is_never_taken_for_the_picture(made, tmp_path, out, capsys):
    """pydantic makes bytes of the characters of a text; then a model would see the path."""
    for name in FORMATS:
        source = write(tmp_path / name, [{"image": "pictures/a.png"}])
        assert made(IMAGE)("--input", source, "--output", tmp_path / f"out-{name}") == 65, name
        assert "a path is not opened" in capsys.readouterr().err, name


def test_parameters_are_options_and_part_of_the_plan(made, tmp_path, out, capsys):
    source = write(tmp_path / "a.jsonl", [{"image": base64.b64encode(b"abc").decode()}])
    job = made(IMAGE)
    assert job("--input", source, "--output", out.path) == 0
    assert predictions(out)[0]["labels"] == ["dark"], "the default"
    assert job("--input", source, "--output", out.path, "--parameter", "top=2") == 78
    assert "--parameters was {'top': 1}, now {'top': 2}" in capsys.readouterr().err
    for wrong in ("top=many", "tip=1", "top"):
        assert job("--input", source, "--output", tmp_path / "other", "--parameter", wrong) == 78


@pytest.mark.parametrize("kind", ["table", "image", "document"])
def test_the_batch_says_what_the_service_says(made, tmp_path, out, kind):
    """One model.py: the same instances as lines of a file and as the body of a request."""
    from fastapi.testclient import TestClient
    from gpu_repo_runtime.serving.app import create_app

    source = {"table": TABLE, "image": IMAGE, "document": DOCUMENT}[kind]
    rows = {
        "table": [{"age": 70, "since": "2020-01-02"}, {"age": 3, "weight": None}],
        "image": [{"image": base64.b64encode(content).decode()} for content in PICTURES.values()],
        "document": [{"customer": "a", "lines": [{"name": "x", "price": 1.5}]}, {"customer": "b", "lines": []}],
    }[kind]
    job = made(source)
    assert job("--input", write(tmp_path / "a.jsonl", rows), "--output", out.path) == 0
    interface = job.module("job").import_model(job.package)
    with TestClient(create_app(interface.model)) as client:
        served = client.post("/predict", json={"instances": rows}).json()["predictions"]
    # The keys of tags are data, so that its column is a map: pairs in Python.
    assert json.loads(json.dumps(predictions(out)).replace('"tags": []', '"tags": {}')) == served


def test_an_answer_that_is_no_output_is_a_bad_row(made, tmp_path, out):
    source = write(tmp_path / "a.jsonl", [{"age": n} for n in range(5)])
    broken = TABLE.replace("for one in batch", "if one.age != 3 else {} for one in batch")
    options = ("--on-error", "quarantine", "--max-bad", 0.5)
    assert made(broken.replace("examples = (Input(age=3),)", "examples = (Input(age=4),)"))(
        "--input", source, "--output", out.path, *options
    ) == 0  # fmt: skip
    [bad] = out.quarantined()
    assert bad["row"] == 3
    assert "which is not an Output" in bad["reason"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_folder_is_not_a_field(made, tmp_path, out, capsys, name):
    for city in ("Ulm", "Bonn"):
        (tmp_path / "in" / f"city={city}").mkdir(parents=True)
        write(tmp_path / "in" / f"city={city}" / name, [{"age": 5}])
    for options in ((), ("--keep", "city"), ("--columns", "age=city")):
        assert made(TABLE)("--input", tmp_path / "in", "--output", out.path, *options) == 78
        assert "column 'city' is the name of a folder" in capsys.readouterr().err


def test_bytes_in_quarantine_are_base64_as_an_input_has_them(made, tmp_path, out):
    pq.write_table(pa.table({"image": [b"\xff\x00", b"ok"], "threshold": ["high", "0.5"]}), tmp_path / "a.parquet")
    options = ("--on-error", "quarantine", "--max-bad", 1)
    assert made(IMAGE)("--input", tmp_path / "a.parquet", "--output", out.path, *options) == 0
    [bad] = out.quarantined()
    assert json.loads(bad["raw"]) == {"image": base64.urlsafe_b64encode(b"\xff\x00").decode(), "threshold": "high"}
