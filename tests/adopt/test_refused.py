"""A repository that cannot be adopted is refused in one line with the way out, and stays as it was."""

from __future__ import annotations

import json
from pathlib import Path

import adopt
import pytest
from adoption import placing
from adoption.repository import AdoptError
from adoption.tree import read_tree

from tests.adopt.conftest import Make
from tests.conftest import git

TRAIN = {"train.py": "import torch\n"}


def refused(folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """Adopt, expect a refusal and return its one line."""
    assert adopt.main([str(folder), *more]) == 1
    said = capsys.readouterr()
    assert not said.out
    assert len(said.err.splitlines()) == 1, said.err
    return said.err


@pytest.mark.parametrize("name", ["train.py", "new.py"])
def test_work_that_is_not_committed(name: str, old: Make, capsys: pytest.CaptureFixture[str]) -> None:
    folder = old(TRAIN)
    (folder / name).write_text("x = 1\n")
    assert "has uncommitted work" in refused(folder, capsys)
    assert git(folder, "branch", "--format=%(refname:short)").split() == ["main"]


def test_a_folder_of_a_larger_repository(old: Make, capsys: pytest.CaptureFixture[str]) -> None:
    folder = old({"ml/train.py": "import torch\n"})
    assert "subtree split --prefix=ml" in refused(folder / "ml", capsys)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("_src_path: gh:other/template\n", "follows a template of Copier already"),
        (
            "_src_path: here\nproject_type: batch\nframework: torch\ngpu_driver: '580'\n",
            "scripts/update brings what is new",
        ),
    ],
)
def test_a_repository_that_follows_a_template(
    text: str, expected: str, old: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in refused(old({**TRAIN, ".copier-answers.yml": text}), capsys)


def test_a_branch_that_is_there(old: Make, capsys: pytest.CaptureFixture[str]) -> None:
    assert "has a branch main already" in refused(old(TRAIN), capsys, "--to", "main")


def test_no_repository_and_no_commit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a git repository" in refused(tmp_path, capsys)
    git(tmp_path, "init", "--quiet")
    assert "has no commit yet" in refused(tmp_path, capsys)
    assert "there is no such folder" in refused(tmp_path / "none", capsys)


def test_a_file_where_the_template_has_another(old: Make) -> None:
    tree = read_tree(old({"train.py": "", "scripts/test": "#!/bin/sh\n", "wheels": "a file\n"}))
    with pytest.raises(AdoptError) as rejected:
        placing.kept_paths(tree, ["scripts/test", "wheels/a.whl", "README.md"])
    assert "scripts/test is a file of the template, too" in str(rejected.value)
    assert "wheels is where the template has wheels/a.whl" in str(rejected.value)


def test_no_password_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert adopt.failed("cannot fetch git+https://s3cret@host/x.git and https://bob:s3cret@host/simple", True) == 1
    assert "s3cret" not in "".join(capsys.readouterr())


def test_an_answer_to_no_question(old: Make, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no question 'colour'" in refused(old(TRAIN), capsys, "--answers", "colour=red")


def test_a_refusal_is_an_object_for_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert adopt.main([str(tmp_path / "none"), "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out).keys() == {"error"}
    assert err.startswith("adopt: ")


def test_no_repository_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        adopt.main([""])
    assert "which repository?" in capsys.readouterr().err
