"""Which files are the input: wildcards as in a shell, each file once, never the output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.batch.conftest import Output, write_jsonl
from tests.batch.object_store import object_store

NAMES = ["a.jsonl", "b.jsonl", "!.jsonl", "ab.jsonl", "c^.jsonl", "-.jsonl", "sub/a.jsonl", "sub/b.jsonl"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        write_jsonl(tmp_path / "in" / name, [name])
    return tmp_path / "in"


def test_folders_that_a_wildcard_matches_are_read_as_in_a_shell(job, source, out):
    assert job("--input", f"{source}/*", "--output", out.path) == 0
    assert sorted(row["text"] for row in out.rows()) == sorted(NAMES)
    expected = {"*": 3, "a*": 1, "**": 3, "**/*": 3, "**/[bc].jsonl": 2, "s*/*": 2, "sub": 2, "?ub/c.*": 1}
    with object_store() as store:
        for name in ("in/a.jsonl", "in/sub/b.jsonl", "in/sub/c.jsonl"):
            store.put(name, b'{"text": "a"}\n')
        for pattern, count in expected.items():
            found = job.module("inputs").find_files([store.uri(f"in/{pattern}")])
            assert len(found) == count, (pattern, found)


def test_a_file_that_several_paths_lead_to_is_read_once(job, source, tmp_path, out, capsys):
    (source / "0.jsonl").symlink_to(source / "a.jsonl")
    (source / "also").symlink_to(source / "sub")
    arguments = (source, source / "a.jsonl", source / "sub" / ".." / "b.jsonl", f"{source}/*.jsonl")
    assert job("--input", *arguments, "--output", out.path) == 0
    assert sorted(row["text"] for row in out.rows()) == sorted(NAMES)
    assert "each file is read once" in capsys.readouterr().err


def test_the_output_in_the_input_is_no_input(job, source, capsys):
    out = Output(source / "result")
    for _ in range(2):
        assert job("--input", source, "--output", out.path) == 0
        assert len(out.rows()) == len(NAMES)
    second = Output(source / "second")
    assert job("--input", source, "--output", second.path) == 0
    assert len(second.rows()) == len(NAMES), "the result of another run is not input"
    third = Output(source / "third")
    assert job("--input", source, out.path / "data", "--output", third.path) == 0
    assert len(third.rows()) == 2 * len(NAMES), "a result that is named is input"
    assert job("--input", out.path / "data", "--output", out.path) == 78
    assert "is in the output" in capsys.readouterr().err


def test_a_link_that_leads_nowhere_is_refused(job, source, out, capsys):
    """As DVC and git-annex leave a file that was not fetched."""
    (source / "d.jsonl").symlink_to("nowhere")
    assert job("--input", source, "--output", out.path) == 78
    assert "is not a file, but a pipe or a broken link" in capsys.readouterr().err


@pytest.mark.parametrize("nothing", ["typo*/*.jsonl", "empty", "other", "other/notes.md"])
def test_each_input_has_to_have_something(job, source, tmp_path, out, capsys, nothing):
    """A month that was not downloaded would make half a result look whole."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.md").write_text("not data")
    assert job("--input", source, tmp_path / nothing, "--output", out.path) == 78
    assert f"no input in {tmp_path / nothing}: " in capsys.readouterr().err
    assert not out.path.exists()


def test_links_out_of_the_input_are_files_of_their_own(job, tmp_path, out):
    """As git-annex and DVC keep files: those of the same content are links to one."""
    store = write_jsonl(tmp_path / "store.jsonl", ["the same"])
    for year in (1, 2):
        (tmp_path / "in" / f"year={year}").mkdir(parents=True)
        (tmp_path / "in" / f"year={year}" / "a.jsonl").symlink_to(store)
    inputs = (tmp_path / "in", tmp_path / "in" / "year=1" / "a.jsonl", tmp_path / "in" / "year=2")
    assert job("--input", *inputs, "--output", out.path) == 0
    assert [(row["file"], row["text"]) for row in out.rows()] == [
        (f"year={year}/a.jsonl", "the same") for year in (1, 2)
    ]
