"""A child is what its owner writes: how much of it the template may have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.templates.sizes import size_of

# Files, lines, the owner's share of all lines. Who adds to a child makes room here, or puts it into the runtime.
LIMITS = {"library": (28, 965, 0.27), "batch": (37, 1195, 0.29), "service": (41, 1270, 0.21)}
CASES = [*((project_type, "plain") for project_type in LIMITS), ("service", "torch"), ("service", "tensorflow")]


@pytest.mark.parametrize(("project_type", "framework"), CASES)
def test_the_templates_part_stays_small(render: Callable[[AnswerSet], Path], project_type: str, framework: str) -> None:
    files, lines, share = LIMITS[project_type]
    size = size_of(render(AnswerSet(project_type, framework)))
    assert (size.files <= files, size.lines <= lines, size.share >= share) == (True, True, True), size
