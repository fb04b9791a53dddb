"""No test gets lost between the sets: each is in one of them, and a sampled table loses no row."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from itertools import product
from typing import Any

import pytest
from _pytest.mark.expression import Expression

from tests.conftest import ROOT
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


def test_each_test_is_in_one_set_and_before_a_change_lands_all_but_those_of_a_release_run() -> None:
    recipes = (ROOT / "Makefile").read_text() + (ROOT / "base-images" / "images.mk").read_text()
    chosen = re.findall(r"(?m)^(test[a-z-]*): .*\n(?:\t.*\n)*?\t.*-m pytest .*?-m (?:'([^']+)'|(\w+)) ", recipes)
    sets = {name: Expression.compile(quoted or word) for name, quoted, word in chosen}
    assert sets.keys() == {"test", "test-slow", "test-release", "test-images"}
    for marks in product(*(("", mark) for mark in ("slow", "release", "images"))):
        taken = [name for name, of in sets.items() if of.evaluate(lambda mark, marks=marks, **_: mark in marks)]
        assert len(taken) == 1, f"a test marked {list(filter(None, marks))} is in {taken}"
    run = re.findall(r"(?m)^(?:\w+=\w+ )*make (test[a-z-]*)", (ROOT / ".ci" / "run").read_text())
    assert sorted(run) == ["test", "test-images", "test-slow"]
