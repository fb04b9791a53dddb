"""A record counts only while the part's files are there, whole; what is lost is made anew, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.batch.conftest import Output, texts, write_jsonl
from tests.sampling import every, sampled

OPTIONS = ("--part-rows", 20, "--on-error", "quarantine", "--max-bad", 1)
FIRST = "part-00000-000000"


def delete(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


@pytest.fixture
def arguments(tmp_path: Path) -> tuple[object, ...]:
    """Return the arguments of a run over 100 rows in 5 parts, with bad rows in each."""
    lines = [f"RAISE {n}" if n % 10 == 3 else text for n, text in enumerate(texts(100))]
    return ("--input", write_jsonl(tmp_path / "a.jsonl", lines), *OPTIONS)


@pytest.fixture
def whole(job, arguments, tmp_path) -> Output:
    """Return the output of a run that nobody disturbs."""
    output = Output(tmp_path / "whole")
    assert job(*arguments, "--output", output.path) == 0
    return output


def half_done(job, arguments, out: Output, monkeypatch, parts: int = 3) -> None:
    """Do some parts and stop."""
    manifest, count = job.module("manifest"), [0]
    write = manifest.Ledger.write

    def stop(*args):
        count[0] += 1
        if count[0] > parts:
            raise OSError("the disk is gone")
        return write(*args)

    with monkeypatch.context() as patch:
        patch.setattr(manifest.Ledger, "write", stop)
        assert job(*arguments, "--output", out.path) == 1
    assert len(list(out.path.glob("_records/*"))) == parts


@pytest.mark.parametrize("harm", [delete, cut, flip])
@pytest.mark.parametrize("folder", sampled(["_parts", "_quarantine", "_records"], ["_records"]))
def test_what_is_lost_before_the_end_is_made_anew(
    job, arguments, whole, tmp_path, out, monkeypatch, model, folder, harm
):
    half_done(job, arguments, out, monkeypatch)
    harm(next(out.path.glob(f"{folder}/part-00000-000001*")))
    assert job(*arguments, "--output", out.path) == 0
    assert out.digest() == whole.digest()


@pytest.mark.parametrize("harm", sampled([delete, cut], [cut]))
@pytest.mark.parametrize("name", ["data/part-00000-000001.parquet", "_quarantine/part-00000-000004.parquet"])
def test_what_is_lost_after_the_end_is_made_anew(job, arguments, whole, out, capsys, model, name, harm, monkeypatch):
    assert job(*arguments, "--output", out.path) == 0
    harm(out.path / name)
    predicted: list[str] = []
    predict = model.predict
    monkeypatch.setattr(model, "predict", lambda self, batch: predicted.extend(batch) or predict(self, batch))
    assert job.main("merge", "--output", out.path) == 1
    assert Path(name).stem in capsys.readouterr().err
    assert job(*arguments, "--output", out.path) == 0
    assert out.digest() == whole.digest()
    rows = {text for text in predicted if "number" in text}
    assert 0 < len(rows) <= 20, f"{len(rows)} rows were predicted again where one part was lost"
    assert job(*arguments, "--output", out.path) == 0
    assert "nothing to do" in capsys.readouterr().err


def test_a_lost_part_of_another_shard_is_made_anew(job, arguments, whole, out):
    """The others have ended, so that nobody but the last one can make it."""
    for index in range(2):
        assert job(*arguments, "--output", out.path, "--shard", f"{index}/3") == 0
    delete(out.path / "_parts" / f"{FIRST}.parquet")
    flip(out.path / "_parts" / "part-00000-000001.parquet")
    assert job(*arguments, "--output", out.path, "--shard", "2/3") == 0
    assert {**out.digest(), "_manifest.json": ""} == {**whole.digest(), "_manifest.json": ""}


def test_everything_lost_after_the_end_is_made_anew(job, arguments, whole, out):
    assert job(*arguments, "--output", out.path) == 0
    for path in (out.path / "data").iterdir():
        path.unlink()
    (out.path / "data").rmdir()
    (out.path / "_manifest.json").unlink()
    assert job(*arguments, "--output", out.path) == 0
    assert out.digest() == whole.digest()


def test_a_part_that_is_lost_while_it_is_published(job, arguments, whole, out, monkeypatch):
    store = job.module("store").DiskStore
    publish = store.publish

    def lose(self):
        publish(self)
        monkeypatch.undo()
        flip(out.path / "data" / "part-00000-000002.parquet")
        delete(out.path / "data" / "part-00000-000004.parquet")

    monkeypatch.setattr(store, "publish", lose)
    assert job(*arguments, "--output", out.path) == 0
    assert out.digest() == whole.digest()


def test_a_lost_part_of_wider_types(job, tmp_path, out):
    """The part that is made anew has narrow types again, and those beside it have not."""
    (tmp_path / "a.jsonl").write_text('{"text": "x", "id": 1}\n' * 1001 + '{"text": "x", "id": 0.5}\n')
    arguments = ("--input", tmp_path / "a.jsonl", "--part-rows", 300, "--keep", "id")
    assert job(*arguments, "--output", out.path) == 0
    before = out.digest()
    delete(out.path / "data" / f"{FIRST}.parquet")
    assert job(*arguments, "--output", out.path) == 0
    assert out.digest() == before


def test_lost_parts_in_an_object_store(job, arguments):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    memory = fsspec.filesystem("memory")
    assert job(*arguments, "--output", "memory://lost") == 0
    whole = {path: memory.cat(path) for path in memory.find("/lost/data") + memory.find("/lost/_quarantine")}
    memory.rm(f"/lost/data/{FIRST}.parquet")
    memory.pipe("/lost/_quarantine/part-00000-000002.parquet", b"x")
    assert job(*arguments, "--output", "memory://lost") == 0
    assert {path: memory.cat(path) for path in whole} == whole
    memory.rm("/lost/_SUCCESS")
    memory.pipe(f"/lost/data/{FIRST}.parquet", whole[f"/lost/data/{FIRST}.parquet"][:-1] + b"?")
    assert job(*arguments, "--output", "memory://lost") == 0
    assert {path: memory.cat(path) for path in whole} == whole


def changed(**values: object):
    """Return what changes a record as a hand or another program does."""

    def change(out: Output) -> None:
        path = out.path / "_records" / f"{FIRST}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


HANDS = {
    "rows": changed(rows=25),
    "a text for a number": changed(rows="20"),
    "the end of the part": changed(end=7),
    "the last part": changed(last=True),
    "bad rows": changed(bad=0),
    "pieces": changed(by_folder=True, pieces=[5]),
    "a stray file": lambda out: (out.path / "_records" / ".DS_Store").write_text("x"),
    "a copy": lambda out: (out.path / "_records" / f"{FIRST} (1).json").write_text("{}"),
    "a folder for the result": lambda out: (out.path / "data").mkdir(),
}


@pytest.mark.parametrize("hand", sampled(HANDS, every(3)))
def test_a_record_that_a_hand_has_changed_does_not_count(job, arguments, whole, out, monkeypatch, capsys, hand):
    half_done(job, arguments, out, monkeypatch)
    HANDS[hand](out)
    assert job(*arguments, "--output", out.path) == 0, capsys.readouterr().err
    assert out.digest() == whole.digest()


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (None, "and no _plan.json of this job"),
        ("null", "is cut or no JSON"),
        ('{"files": null}', "is cut or no JSON"),
        ('{"files": [1]}', "is cut or no JSON"),
    ],
)
def test_parts_without_the_plan_that_they_were_made_by(job, arguments, out, monkeypatch, capsys, plan, message):
    """Else parts of another code would stand beside those of this one."""
    half_done(job, arguments, out, monkeypatch)
    delete(out.path / "_plan.json")
    if plan is not None:
        (out.path / "_plan.json").write_text(plan)
    assert job(*arguments, "--output", out.path) == 78
    assert message in capsys.readouterr().err
    assert not out.complete


def test_a_manifest_that_does_not_tell_of_a_part(job, arguments, whole, out, capsys):
    assert job(*arguments, "--output", out.path) == 0
    manifest = out.read_json("_manifest.json")
    del manifest["parts"][2]
    (out.path / "_manifest.json").write_text(json.dumps(manifest))
    assert job(*arguments, "--output", out.path) == 0
    assert "of which its manifest does not tell" in capsys.readouterr().err
    assert out.digest() == whole.digest()


def test_check_names_a_file_that_is_none_of_the_result(job, arguments, out, capsys):
    assert job(*arguments, "--output", out.path) == 0
    (out.path / "data" / "copy.parquet").write_bytes((out.path / "data" / f"{FIRST}.parquet").read_bytes())
    assert job.main("check", "--output", str(out.path)) == 1
    assert "copy.parquet is none of the manifest's files" in capsys.readouterr().out


def test_check_names_bad_rows_and_counts_that_are_none_of_the_result(job, arguments, out, capsys):
    assert job(*arguments, "--output", out.path) == 0
    (out.path / "_quarantine").mkdir(exist_ok=True)
    (out.path / "_quarantine" / "copy.parquet").write_bytes(b"")
    manifest = out.read_json("_manifest.json")
    (out.path / "_manifest.json").write_text(json.dumps({**manifest, "written": 7}))
    assert job.main("check", "--output", str(out.path)) == 1
    said = capsys.readouterr().out
    assert "_quarantine/copy.parquet is none of the manifest's files" in said
    assert f"its manifest says 7 written, and its parts {manifest['written']}" in said


def test_check_of_a_result_that_is_not_complete(job, arguments, out, capsys):
    assert job(*arguments, "--output", out.path) == 0
    (out.path / "_SUCCESS").unlink()
    assert job.main("check", "--output", str(out.path)) == 78
    assert "there is no _SUCCESS in the output" in capsys.readouterr().err


def test_bad_rows_of_an_attempt_that_was_killed_are_not_left(job, tmp_path, out, capsys):
    """A row that was bad for want of memory, and is not the second time; the kill came before the part's record."""
    source = write_jsonl(tmp_path / "a.jsonl", texts(20))
    options = ("--part-rows", 10, "--on-error", "quarantine")
    stale = out.path / "_quarantine" / f"{FIRST}.parquet"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"rows of before")
    assert job("--input", source, "--output", out.path, *options) == 0
    assert not stale.exists()
    foreign = tmp_path / "other" / "_quarantine" / "copy.parquet"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"of another program")
    assert job("--input", source, "--output", tmp_path / "other", *options) == 78
    assert "_quarantine holds 'copy.parquet', which this job has not written" in capsys.readouterr().err
