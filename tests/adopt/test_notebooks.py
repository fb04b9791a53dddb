"""Notebooks are code where there is no other: what they import and install is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from adoption.notebooks import cells, code_of, installed_by

from tests.adopt.conftest import Make
from tests.adopt.test_detect import findings


def notebook(*sources: object) -> str:
    """Return a notebook with these code cells and a text."""
    made = [{"cell_type": "code", "source": source} for source in sources]
    return json.dumps({"cells": [*made, {"cell_type": "markdown", "source": ["import sklearn\n"]}], "nbformat": 4})


BOOK = notebook(
    ["!pip install -q 'einops>=0.6' -i https://h/simple git+https://h/x.git ./own\n", "%matplotlib inline\n"],
    "import torch\nimport cv2\nfrom google.colab import drive\nif True:\n    !ls\ntorch?\n",
    "%%bash\nimport nothing\n",
)


def test_notebooks_alone_say_what_they_need(old: Make) -> None:
    found = findings(old({"notebooks/a.ipynb": BOOK, "README.md": "# A\n"}))
    asked = {str(asked.requirement): asked.source for asked in found.packaging.packages.run}
    assert asked == {
        "einops>=0.6": "notebooks/a.ipynb", "opencv-python-headless": "the imports of its code",
        "torch": "the imports of its code",
    }  # fmt: skip
    assert found.answers["framework"].value == "torch", found.answers["framework"].reason
    assert found.facts["layout"] == "notebooks only: notebooks/a.ipynb"
    assert not found.packaging.packages.left


def test_beside_code_they_say_nothing(old: Make) -> None:
    found = findings(old({"a.ipynb": BOOK, "run.py": "import numpy\n"}))
    assert found.packaging.packages.names() == {"numpy"}
    assert found.answers["framework"].value == "plain"


def test_what_the_shell_and_the_magic_words_do_is_no_python(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(BOOK)
    compile(code_of(path), "a", "exec")
    assert installed_by(path) == ["einops>=0.6"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"cells": 3}', '{"cells": [{"cell_type": "code"}]}', "[" * 100_000])
def test_one_that_cannot_be_read_stops_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text(text)
    assert not "".join(cells(tmp_path / "a.ipynb"))
