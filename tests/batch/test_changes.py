"""A run that was begun with other input, options or code is refused, with what changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.batch import standin_model
from tests.batch.conftest import texts, write_jsonl
from tests.sampling import every, sampled


def test_input_changed_since_the_first_start(job, tmp_path, out, capsys):
    source = tmp_path / "in"
    source.mkdir()
    for name in ("same", "grows", "goes"):
        write_jsonl(source / f"{name}.jsonl", texts(20))
    arguments = ("--input", source, "--output", out.path)
    assert job(*arguments, "--shard", "0/2") == 0
    write_jsonl(source / "grows.jsonl", texts(21))
    (source / "goes.jsonl").unlink()
    write_jsonl(source / "new.jsonl", texts(1))
    capsys.readouterr()
    assert job(*arguments, "--shard", "0/2") == 78
    said = capsys.readouterr().err
    for part in ("files new: new.jsonl", "files gone: goes.jsonl", "files changed: grows.jsonl"):
        assert part in said, said


@pytest.mark.parametrize(
    ("options", "said"),
    sampled(
        [
            (["--shard", "0/3"], "--shards was 2, now 3"),
            (["--shard", "0/2", "--part-rows", "5"], "--part-rows was 10000, now 5"),
            (["--shard", "0/2", "--on-error", "skip"], "--on-error was fail, now skip"),
            (["--keep", "nothing"], "no column 'nothing'"),
            (["--column", "body"], "no column 'body'"),
        ],
        every(4),
    ),
)
def test_other_options_are_refused_before_anything_is_done(job, tmp_path, out, capsys, options, said):
    source = write_jsonl(tmp_path / "a.jsonl", ["x", "y"])
    assert job("--input", source, "--output", out.path, "--shard", "0/2") == 0
    before = sorted(out.path.rglob("*"))
    capsys.readouterr()
    assert job("--input", source, "--output", out.path, *options) == 78
    assert said in capsys.readouterr().err
    assert sorted(out.path.rglob("*")) == before


@pytest.mark.parametrize("name", ["src/{package}/extra.py", "src/{package}/weights.bin", "src/beside/helper.py"])
def test_what_the_model_uses_beside_its_file_is_part_of_the_plan(made, tmp_path, out, capsys, name):
    own = made(Path(standin_model.__file__).read_text())
    given = ("--input", write_jsonl(tmp_path / "a.jsonl", texts(4)), "--output", out.path, "--part-rows", 2)
    path = tmp_path / "child" / name.format(package=own.package)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"first = 1\n")
    assert own(*given, "--shard", "0/2") == 0
    (path.parent / "__pycache__").mkdir(exist_ok=True)
    (path.parent / "__pycache__" / "left.pyc").write_bytes(b"of a tool")
    assert own(*given, "--shard", "0/2") == 0
    path.write_bytes(b"other = 2\n")
    capsys.readouterr()
    assert own(*given, "--shard", "1/2") == 78
    assert "changed" in capsys.readouterr().err
