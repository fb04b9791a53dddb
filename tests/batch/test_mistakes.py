"""Mistakes of the owner and of whoever starts the job end with 78 or 65 and a line that names them, never with 1."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.batch.conftest import write_jsonl
from tests.sampling import every, sampled


@pytest.mark.parametrize("form", sampled(["csv", "parquet"], ["csv"]))
@pytest.mark.parametrize(("double", "keep"), [("text", None), ("id", "id")])
def test_two_columns_of_one_name(job, tmp_path, out, capsys, form, double, keep):
    names = ["text", "id", double]
    if form == "csv":
        (tmp_path / "a.csv").write_text(",".join(names) + "\nx,1,2\n")
    else:
        columns = [pa.array(["x"]), pa.array([1]), pa.array(["y"])]
        pq.write_table(pa.table(columns, names=names), tmp_path / "a.parquet")
    options = [] if keep is None else ["--keep", keep]
    assert job("--input", tmp_path / f"a.{form}", "--output", out.path, *options) == 78
    assert f"2 columns '{double}': which one is meant?" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_two_columns_of_one_name_in_a_later_file(job, tmp_path, out, capsys, form):
    source = tmp_path / "in"
    source.mkdir()
    for name, names in (("a", ["text"]), ("b", ["text", "text"])):
        if form == "csv":
            (source / f"{name}.csv").write_text(",".join(names) + "\n" + ",".join("x" for _ in names) + "\n")
        else:
            pq.write_table(pa.table([pa.array(["x"])] * len(names), names=names), source / f"{name}.parquet")
    assert job("--input", source, "--output", out.path) == 65
    assert f"b.{form}: 2 columns 'text'" in capsys.readouterr().err


BLANK, NO_NUMBER = "is neither a path nor a URI (is a variable empty?)", " is not a "
WRONG = [
    ("--shard", "0/0", "the index 0 has to be below the count 0"),
    ("--shard", "x", "needs an index and a count"),
    ("--output", "/proc/nothing", "the output folder /proc/nothing cannot be made"),
    ("--output", "x" * 300, "File name too long"),
    ("--input", "y" * 300, "File name too long"),
    ("--output", " ", BLANK),
    ("--output", "s3://", BLANK),
    ("--input", "", BLANK),
    ("--output", "s3:/bucket/out", "needs two slashes: s3://"),
    ("--grace", "nan", NO_NUMBER),
    ("--grace", "-1", NO_NUMBER),
    ("--part-rows", "1" + "0" * 30, NO_NUMBER),
    ("--max-bad", "2", NO_NUMBER),
    ("--colour", "red", "--colour"),
    ("--keep", '"a,b', "is not a list of names"),
]


@pytest.mark.parametrize(("option", "value", "said"), sampled(WRONG, every(4)))
def test_options_that_no_other_try_helps(job, tmp_path, capsys, monkeypatch, option, value, said):
    """A blank one is an empty variable of a manifest: "" would be the folder of the process."""
    monkeypatch.chdir(tmp_path)
    source = write_jsonl(tmp_path / "a.jsonl", ["x"])
    assert job("--input", source, "--output", "out", option, value) == 78
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_options_of_a_training_that_no_other_try_helps(job, tmp_path, capsys):
    for option, value in (("--learning-rate", "inf"), ("--seed", "4294967296")):
        assert job.main("train", "--output", tmp_path / "out", option, value) == 78
        assert NO_NUMBER in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["1 / 0", "open('none')", "import pickle; pickle.loads(b'c__main__\\nnone\\n.')"])
def test_a_model_that_cannot_load(job, model, tmp_path, out, capsys, monkeypatch, wrong):
    def load(self, device):
        exec(wrong, {"self": self})

    monkeypatch.setattr(model, "load", load)
    assert job("--input", write_jsonl(tmp_path / "a.jsonl", ["x"]), "--output", out.path) == 78
    said = capsys.readouterr().err
    assert "the model cannot be loaded: " in said
    assert ("define it in the package and save again" in said) is ("pickle" in wrong)
