"""Mistakes of the owner and of whoever starts the job end with 78 or 65 and a line that names them, never with 1."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gpu_repo_runtime.batch.exits import is_refused
from gpu_repo_runtime.training.data import sample_of

from tests.batch.conftest import PACKAGE, Job, texts, write_jsonl
from tests.sampling import every, sampled

TASK = """
import numpy as np


class Steps:
    n = 0


class Task:
    def data(self):
        return [(float(number), 0) for number in range(64)], {checks}

    def estimator(self, learning_rate):
        return Steps()

    def collate(self, examples):
        return np.array([number for number, _ in examples], np.float32)

    def fit(self, estimator, batch):
        estimator.n += 1

    def loss(self, estimator, batch):
        return {loss}
"""
FINE = {"checks": "[(1.0, 0)]", "loss": "1.0, {'accuracy': 0.5}"}


def own(child: Path, folder: Path, task: dict[str, str] | None = None) -> Job:
    """Return the job of a copy of the child, with a task where one is given, under another package name."""
    package = f"own_{abs(hash((str(folder), json.dumps(task))))}"
    shutil.copytree(child / "src" / PACKAGE, folder / "src" / package, dirs_exist_ok=True)
    if task is not None:
        (folder / "src" / package / "task.py").write_text(TASK.format(**FINE | task))
    return Job(folder, package)


@pytest.fixture
def trained(child, tmp_path, monkeypatch):
    """Return a function that trains a task in this process and returns the exit code."""
    monkeypatch.syspath_prepend(tmp_path / "src")

    def train(output: object, *options: object, **task: str) -> int:
        job = own(child, tmp_path, task)
        return job.main("train", "--output", output, "--epochs", 1, "--batch-size", 8, "--device", "cpu", *options)

    return train


@pytest.mark.parametrize(
    ("task", "said"),
    sampled(
        [
            ({"loss": 'float("nan")'}, "the loss of epoch 1 is not a number"),
            ({"loss": 'float("inf"), {}'}, "the loss of epoch 1 is not a number"),
            ({"checks": "iter([])"}, "expected lists or Datasets with a length; got list_iterator"),
            ({"loss": "undefined"}, "the task fails (above): NameError"),
            ({"loss": "None"}, "the task fails (above): TypeError"),
            ({"checks": "[]"}, "no examples to check with"),
            ({"checks": "1 / 0"}, "the task fails (above): ZeroDivisionError"),
        ],
        every(3),
    ),
)
def test_a_task_that_is_wrong(trained, tmp_path, capsys, task, said):
    assert trained(tmp_path / "out", **task) == 78
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out" / "result.json").exists()


@pytest.mark.parametrize("content", sampled([b"", b"PK\x03\x04 cut", b"\x80 no archive at all" * 40], every(3)))
def test_a_checkpoint_that_is_cut_is_named_and_left(trained, tmp_path, capsys, content):
    assert trained(tmp_path / "out") == 0
    checkpoint = tmp_path / "out" / "checkpoint.pkl"
    checkpoint.write_bytes(content)
    capsys.readouterr()
    assert trained(tmp_path / "out", "--epochs", 2) == 78
    said = capsys.readouterr().err
    assert f"{checkpoint} is cut, or not of this task's network" in said
    assert "Traceback" not in said
    assert checkpoint.read_bytes() == content


STEPS = ("--batch-size", 8, "--checkpoint-steps", 2, "--patience", 0)


def test_a_loss_that_is_lost_in_an_epoch_leaves_the_checkpoint_before_it(trained, tmp_path, capsys):
    """8 steps of an epoch: the fifth is not a number, the checkpoints are behind the second and the fourth."""
    later = 'float("nan") if estimator.n > 4 else 1.0'
    assert trained(tmp_path / "out", *STEPS, loss=later) == 78
    assert "the loss is not a number in epoch 1, by step 6 of 8" in capsys.readouterr().err
    assert trained(tmp_path / "out", *STEPS) == 0
    said = capsys.readouterr().err
    assert "going on: epoch 1, step 4 of 8" in said
    assert "the code is not what it was" in said


def test_other_examples_in_the_same_number_are_another_training(trained, tmp_path, capsys):
    assert trained(tmp_path / "out") == 0
    assert trained(tmp_path / "out", "--epochs", 2, checks="[(2.0, 0)]") == 78
    assert "of another training: the examples are others" in capsys.readouterr().err


def test_examples_that_collate_differently_each_time_have_no_sample():
    own = np.random.default_rng()
    assert sample_of(lambda examples: own.random(len(examples)), [1], [2]) == ""
    assert sample_of(np.array, range(1000), [2]) != sample_of(np.array, range(1, 1001), [2]) != ""


@pytest.mark.parametrize("content", [None, b"\x80\x04 cut"])
def test_best_weights_that_are_gone_or_cut_are_named_at_the_start(trained, tmp_path, capsys, content):
    assert trained(tmp_path / "out") == 0
    best = tmp_path / "out" / "best.pkl"
    best.unlink() if content is None else best.write_bytes(content)
    assert trained(tmp_path / "out", "--epochs", 2) == 78
    assert f"{best} is gone or cut" in capsys.readouterr().err


def test_a_longer_training_has_no_result_of_the_shorter_one(trained, tmp_path, capsys):
    assert trained(tmp_path / "out") == 0
    assert trained(tmp_path / "out", "--epochs", 2, "--patience", 0, loss='float("nan")') == 78
    assert not (tmp_path / "out" / "result.json").exists()


@pytest.mark.parametrize(("place", "said"), [("s3://bucket/out", "to a folder on a disk"), ("FILE", "to be a folder")])
def test_a_training_into_no_folder(trained, tmp_path, capsys, place, said):
    (tmp_path / "file").touch()
    assert trained(str(tmp_path / "file") if place == "FILE" else place) == 78
    assert said in capsys.readouterr().err


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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--shard", "0/0"], "the count has to be 1 or more"),
        (["--metrics-file", "/nowhere/at/all.prom"], "--metrics-file /nowhere/at/all.prom: there is no such folder"),
        (["--metrics-file", "."], "--metrics-file .: name a file, for example job.prom"),
        (["--output", "/proc/nothing"], "the output folder /proc/nothing cannot be made"),
        (["--output", "x" * 300], "File name too long"),
        (["--input", "y" * 300], "File name too long"),
    ],
)
def test_options_that_no_other_try_helps(job, tmp_path, out, capsys, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    source = write_jsonl(tmp_path / "a.jsonl", ["x"])
    assert job("--input", source, "--output", out.path, *options) == 78
    assert said in capsys.readouterr().err


def test_metrics_that_cannot_be_written_do_not_end_the_job(job, tmp_path, out, capsys):
    (tmp_path / "folder.prom").mkdir()
    options = ["--metrics-file", tmp_path / "folder.prom", "--push-gateway", "http://[nonsense"]
    assert job("--input", write_jsonl(tmp_path / "a.jsonl", texts(5)), "--output", out.path, *options) == 0
    said = capsys.readouterr().err
    assert "the metrics could not be written" in said
    assert "the metrics did not reach the push gateway" in said
    assert len(out.rows()) == 5


def test_a_device_or_pipe_for_the_metrics_is_written_to_and_stays(job, tmp_path, out, capsys):
    (tmp_path / "full.prom").symlink_to("/dev/full")
    os.mkfifo(tmp_path / "pipe.prom")
    source = write_jsonl(tmp_path / "a.jsonl", texts(5))
    for name, reason in (("full.prom", "No space left"), ("pipe.prom", "No such device")):
        assert job("--input", source, "--output", tmp_path / f"out-{name}", "--metrics-file", tmp_path / name) == 0
        assert reason in capsys.readouterr().err, name
    assert (tmp_path / "full.prom").is_symlink()
    assert (tmp_path / "pipe.prom").is_fifo()


def test_merging_what_is_not_there_makes_nothing(job, out, capsys):
    assert job.main("merge", "--output", out.path) == 78
    assert "there is no folder" in capsys.readouterr().err
    assert not out.path.exists()


@pytest.mark.parametrize("cut", ["", '{"start": "2026', "[]", "{}"])
def test_a_story_of_an_earlier_start_that_is_cut_does_not_matter(job, tmp_path, out, cut):
    arguments = ("--input", write_jsonl(tmp_path / "a.jsonl", texts(30)), "--output", out.path, "--part-rows", 10)
    assert job(*arguments, "--shard", "0/2") == 0
    [run] = (out.path / "_runs").iterdir()
    run.write_text(cut)
    assert job(*arguments, "--shard", "1/2") == 0
    assert [run["shard"] for run in out.read_json("_provenance.json")["runs"]] == ["1/2"]


@pytest.mark.parametrize("wrong", ["raise KeyError('weights')", "1 / 0", "self.nothing"])
def test_a_model_that_cannot_load(job, model, tmp_path, out, capsys, monkeypatch, wrong):
    def load(self, device):
        exec(wrong, {"self": self})

    monkeypatch.setattr(model, "load", load)
    assert job("--input", write_jsonl(tmp_path / "a.jsonl", ["x"]), "--output", out.path) == 78
    assert "the model cannot be loaded: " in capsys.readouterr().err


def test_weights_that_do_not_arrive_are_tried_for_again(job, model, tmp_path, out, monkeypatch):
    def load(self, device):
        raise ConnectionError("reset by peer")

    monkeypatch.setattr(model, "load", load)
    assert job("--input", write_jsonl(tmp_path / "a.jsonl", ["x"]), "--output", out.path) == 1


KEY = "When reading information for key 'forbidden/part-403.txt' in bucket 'no-such-bucket': AWS Error "


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (OSError(KEY + "NETWORK_CONNECTION during HeadObject operation: curlCode: 7, Could not connect"), False),
        (OSError(KEY + "ACCESS_DENIED during HeadObject operation: No response body."), True),
        (OSError(KEY + "UNKNOWN (HTTP status 403) during HeadObject operation"), True),
        (OSError(5, "Input/output error", "/data/403/a.jsonl"), False),
        (PermissionError(13, "Permission denied", "/data/a.jsonl"), True),
    ],
)
def test_a_name_does_not_make_an_error_one_that_no_other_try_helps(error, refused):
    assert is_refused(error) == refused
