"""A child as it is rendered has no type error; those with a framework are in test_child.py, where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import TYPES, AnswerSet
from tests.templates.typed import type_errors

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all share: mypy reads NumPy's and pydantic's types once."""
    return tmp_path_factory.mktemp("types")


@pytest.mark.parametrize("project_type", TYPES)
def test_a_plain_child_has_no_type_error(render: Callable[[AnswerSet], Path], scratch: Path, project_type: str) -> None:
    assert type_errors(render(AnswerSet(project_type, "plain")), scratch) == "", project_type


def test_the_checkers_see_an_error(scratch: Path, tmp_path: Path) -> None:
    """Each of them looks at the owner's code and knows the runtime's types."""
    child = tmp_path / "child"
    (child / "tests").mkdir(parents=True)
    (child / "src").mkdir()
    text = "from gpu_repo_runtime.cores import usable_cores\n\nwrong: str = usable_cores()\n"
    (child / "tests/test_nothing.py").touch()
    (child / "src/wrong.py").write_text(text, encoding="utf-8")
    found = type_errors(child, scratch)
    assert "mypy:\nsrc/wrong.py:3: error" in found
    assert "wrong.py:3:14 - error" in found.partition("basedpyright:")[2]
