"""I call my model from a notebook in another folder: docs/how-to/work-in-a-notebook.md."""

from __future__ import annotations

import pytest

from tests.journeys.child import Child

TYPE = "service"
PAGE = "how-to/work-in-a-notebook.md"
pytestmark = [pytest.mark.xdist_group(PAGE), pytest.mark.slow]


def test_a_notebook_predicts_with_my_model(child: Child) -> None:
    child.follow("Install the kernel")
    child.follow("Run it")


def test_lint_accepts_the_notebook(child: Child) -> None:
    child.sh("scripts/lint", expect="all good")
