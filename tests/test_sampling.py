"""A sampled table loses no row: each runs in the quick set or in the slow one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from tests.sampling import every, first_of_each, sampled

ROWS = ["a1", "a2", "b1", "b2"]


@pytest.mark.parametrize(
    ("quick", "expected"),
    [
        (["a2", "b1"], ["a2", "b1"]),
        (lambda row: row == "b2", ["b2"]),
        (first_of_each(lambda row: row[0]), ["a1", "b1"]),
        (every(3), ["a1", "b2"]),
    ],
)
def test_every_row_is_quick_or_slow(quick: Collection[str] | Callable[[str], bool], expected: list[str]) -> None:
    parameters = sampled(ROWS, quick)
    assert [parameter.values for parameter in parameters] == [(row,) for row in ROWS]
    assert [parameter.values[0] for parameter in parameters if not parameter.marks] == expected
    assert {mark.name for parameter in parameters for mark in parameter.marks} == {"slow"}


def test_a_row_of_several_values_stays_one_row() -> None:
    [first, _] = sampled([("a", 1), ("b", 2)], [("a", 1)])
    assert (first.values, list(first.marks)) == (("a", 1), [])


@pytest.mark.parametrize("quick", [["c1"], ["a1", "c1"], lambda row: False])
def test_a_sample_of_nothing_is_refused(quick: Any) -> None:
    with pytest.raises(ValueError, match="not in the table, or nothing at all"):
        sampled(ROWS, quick)
