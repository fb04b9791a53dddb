"""Mistakes of the owner and of whoever starts the job end with 78 or 65 and a line that names them, never with 1."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.batch.conftest import write_jsonl
from tests.sampling import every, sampled


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("files", "double", "options", "code"),
    [
        ([["text", "id", "text"]], "text", (), 78),
        ([["text", "id", "id"]], "id", ("--keep", "id"), 78),
        ([["text"], ["text", "text"]], "text", (), 65),
    ],
)
def test_two_columns_of_one_name(job, tmp_path, out, capsys, form, files, double, options, code):
    for number, names in enumerate(files):
        path = tmp_path / f"{number}.{form}"
        if form == "csv":
            path.write_text(",".join(names) + "\n" + ",".join("x" for _ in names) + "\n")
        else:
            pq.write_table(pa.table([pa.array(["x"])] * len(names), names=names), path)
    assert job("--input", tmp_path / "*.*", "--output", out.path, *options) == code
    assert f"2 columns '{double}'" in capsys.readouterr().err


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
