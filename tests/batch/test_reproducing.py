"""A result says where it comes from, and `check` whether this checkout and this input would give it again."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.batch.conftest import PACKAGE, Job, texts, write_jsonl
from tests.batch.object_store import object_store


@pytest.fixture
def own(job: Job, tmp_path, monkeypatch) -> Job:
    """Return the job of a copy of the child, which a test may change, with weights and a lock."""
    name = f"reproduced_{os.path.basename(tmp_path).replace('-', '_')}"
    child = tmp_path / "child"
    package = child / "src" / name
    shutil.copytree(job.child / "src" / PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "weights.bin").write_bytes(b"1")
    (child / "requirements.lock").write_text("numpy==2.0\n")
    monkeypatch.syspath_prepend(str(child / "src"))
    return Job(child, name)


@pytest.fixture
def result(own: Job, tmp_path, out):
    """Return a complete output."""
    assert own("--input", write_jsonl(tmp_path / "a.jsonl", texts(5)), "--output", out.path) == 0
    return out


def test_the_same_checkout_and_input_would_give_the_same(own, result, tmp_path, capsys):
    os.utime(tmp_path / "a.jsonl", (1, 1))
    assert own.main("check", "--output", result.path) == 0
    assert "would come out the same" in capsys.readouterr().out
    story = result.read_json("_provenance.json")
    assert story["packages"]["pyarrow"]
    assert story["folder"] == os.getcwd()
    assert len(story["weights"]["weights.bin"]) == len(story["locks"]["requirements.lock"]) == 64


CHANGES = {
    "the code": ("child/src/{package}/extra.py", b"x = 1\n", "differs: the code was "),
    "weights": ("child/src/{package}/weights.bin", b"2", "differs: weights: weights.bin was "),
    "new weights": ("child/src/{package}/more.bin", b"2", "differs: weights: more.bin was not there"),
    "the lock": ("child/requirements.lock", b"numpy==2.1\n", "differs: locks: requirements.lock was "),
    "the input's content": ("a.jsonl", None, "differs: a.jsonl has another content"),
    "the input's size": ("a.jsonl", b"{}", "differs: a.jsonl had "),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_differs_is_named(own, result, tmp_path, capsys, case):
    name, content, said = CHANGES[case]
    path = tmp_path / name.format(package=own.package)
    path.write_bytes(path.read_bytes().replace(b"number 3", b"number 4") if content is None else content)
    assert own.main("check", "--output", result.path) == 1
    printed = capsys.readouterr().out
    assert said in printed
    assert "would come out otherwise" in printed


def test_an_input_in_another_place(own, result, tmp_path, capsys):
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "a.jsonl", tmp_path / "copy" / "a.jsonl")
    assert own.main("check", "--output", result.path, "--input", tmp_path / "copy") == 0
    write_jsonl(tmp_path / "copy" / "b.jsonl", ["x"])
    assert own.main("check", "--output", result.path, "--input", tmp_path / "copy") == 1
    assert "the input has b.jsonl, which is new" in capsys.readouterr().out


def test_a_result_that_is_not_complete_cannot_be_compared(own, tmp_path, capsys):
    (tmp_path / "nothing").mkdir()
    assert own.main("check", "--output", tmp_path / "nothing") == 78
    assert "only a complete result can be compared" in capsys.readouterr().err


def test_a_result_that_was_changed_is_not_the_same(own, result, capsys):
    part = next((result.path / "data").iterdir())
    content = part.read_bytes()
    part.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    assert own.main("check", "--output", result.path) == 1
    assert f"differs: the result: data/{part.name} is not what was written" in capsys.readouterr().out
    part.unlink()
    assert own.main("check", "--output", result.path) == 1
    assert "differs: the result: part-00000-000000 of a.jsonl is gone" in capsys.readouterr().out


def test_an_address_without_its_password_is_asked_for(own, out, capsys):
    with object_store() as store:
        store.put("in/a.jsonl", b'{"text": "a"}\n')
        assert own("--input", store.uri("in"), "--output", out.path) == 0
        assert own.main("check", "--output", out.path) == 78
        assert "was written down without its password: say with --input" in capsys.readouterr().err
        assert own.main("check", "--output", out.path, "--input", store.uri("in")) == 0
