"""A whole fleet on both hosts with one child of each odd kind: none of them stops the others, and nothing is lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.updates.fleet_story import good_release, next_plan, play
from tests.updates.whole_fleet import whole_fleet

CHILDREN, KILLS = 40, 3
RULES = ("--threshold", "0.5", "--max-failed", "0.5")  # every other child is an odd one


@pytest.mark.release
def test_no_odd_child_stops_the_others(tmp_path: Path) -> None:
    """A good release, kills on the way, a bad release, and both taken back from an empty folder."""
    with whole_fleet(tmp_path, CHILDREN) as fleet:
        found = play(fleet, KILLS, random.Random(0), *RULES)
    assert found["clean_merged"] == found["clean"] == CHILDREN // 2
    assert found["bad_release_reached"] <= 5


@pytest.mark.slow
def test_each_odd_kind_comes_by_the_other_host_too(tmp_path: Path) -> None:
    with whole_fleet(tmp_path, CHILDREN, swap=1) as fleet:
        found = good_release(fleet, 0, random.Random(1), *RULES) | next_plan(fleet)
    assert found["clean_merged"] == found["clean"] == CHILDREN // 2
