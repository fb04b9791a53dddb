"""Which rows of a table `make test` takes, which `make test-slow` takes besides, and which only a release."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest


def sampled(
    rows: Iterable[Any],
    quick: Collection[Any] | Callable[[Any], object],
    slow: Callable[[Any], object] = lambda _: True,
) -> list[Any]:
    """Return the rows for `parametrize`; those are quick that are in `quick`, or of which it says so.

    Of the others, `make test-slow` takes those of which `slow` says so, and a release the rest. A row that is a tuple
    is one value for each of the test's arguments. Raises ValueError where no row is quick, or a named one is not there.
    """
    rows = list(rows)
    chosen = [row for row in rows if (quick(row) if callable(quick) else row in quick)]
    if not chosen or (not callable(quick) and len(chosen) != len(quick)):
        raise ValueError(f"not in the table, or nothing at all: {quick}")
    made = []
    for row in rows:
        later = pytest.mark.slow if slow(row) else pytest.mark.release
        made.append(_parameter(row, [] if row in chosen else [later]))
    return made


def every(count: int) -> Callable[[Any], bool]:
    """Return what chooses the first row of each `count`."""
    numbers = iter(range(1 << 30))
    return lambda _: next(numbers) % count == 0


def _parameter(row: Any, marks: list[pytest.MarkDecorator]) -> Any:
    return pytest.param(*row, marks=marks) if isinstance(row, tuple) else pytest.param(row, marks=marks)
