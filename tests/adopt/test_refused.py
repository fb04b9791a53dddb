"""A repository that cannot be adopted is refused in one line with the way out, and stays as it was."""

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
FOLLOWS = {**TRAIN, ".copier-answers.yml": "_src_path: gh:other/template\n"}


@pytest.mark.parametrize(
    ("files", "inside", "options", "reason"),
    [
        ({"ml/train.py": ""}, "ml", (), "subtree split --prefix=ml"),
        (TRAIN, "none", (), "there is no such folder"),
        (FOLLOWS, "", (), "follows a template of Copier already (.copier-answers.yml). If it is this one, scripts/upd"),
        (TRAIN, "", ("--to", "main"), "has a branch main already"),
        (TRAIN, "", ("--answers", "colour=red"), "there is no question 'colour'"),
        ({"pyproject.toml": "[project\n"}, "", (), "pyproject.toml of "),
    ],
)
def test_a_refusal_is_one_line_and_an_object_for_a_program(
    files: dict[str, str],
    inside: str,
    options: tuple[str, ...],
    reason: str,
    old: Make,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = old(files)
    assert adopt.main([str(folder / inside), "--json", *options]) == 1
    out, err = capsys.readouterr()
    assert reason in err
    assert err.startswith("adopt: ")
    assert len(err.splitlines()) == 1, err
    assert json.loads(out).keys() == {"error"}
    assert git(folder, "branch", "--format=%(refname:short)").split() == ["main"]


@pytest.mark.parametrize("name", ["train.py", "new.py"])
def test_work_that_is_not_committed(name: str, old: Make, capsys: pytest.CaptureFixture[str]) -> None:
    folder = old(TRAIN)
    (folder / name).write_text("x = 1\n")
    assert adopt.main([str(folder)]) == 1
    assert "has uncommitted work" in capsys.readouterr().err


def test_no_repository_and_no_commit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert adopt.main([str(tmp_path)]) == 1
    assert "is not a git repository" in capsys.readouterr().err
    git(tmp_path, "init", "--quiet")
    assert adopt.main([str(tmp_path)]) == 1
    assert "has no commit yet" in capsys.readouterr().err


def test_a_file_where_the_template_has_another(old: Make) -> None:
    folder = old({"train.py": "", "scripts/test": "#!/bin/sh\n", "wheels": "a file\n", "README.md": ""})
    with pytest.raises(AdoptError) as rejected:
        placing.kept_paths(read_tree(folder), ["scripts/test", "wheels/a.whl", "README.md"])
    said = "scripts/test is where the template has scripts/test; wheels is where the template has wheels/a.whl"
    assert said in str(rejected.value)


def test_no_password_is_printed(old: Make, capsys: pytest.CaptureFixture[str]) -> None:
    assert adopt.main([str(old(TRAIN)), "--template", "https://bob:s3cret@localhost:9/x.git"]) == 1
    assert "s3cret" not in "".join(capsys.readouterr())
