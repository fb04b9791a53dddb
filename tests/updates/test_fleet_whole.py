"""A whole fleet on both hosts with one child of each odd kind: none of them stops the others, and nothing is lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.updates.fleet_story import play
from tests.updates.whole_fleet import whole_fleet

CHILDREN, KILLS = 40, 3


@pytest.mark.slow
@pytest.mark.parametrize("swap", [0, 1])
def test_no_odd_child_stops_the_others(tmp_path: Path, swap: int) -> None:
    """Every odd kind comes by GitHub in one run and by GitLab in the other."""
    with whole_fleet(tmp_path, CHILDREN, swap) as fleet:
        found = play(fleet, KILLS, random.Random(swap), "--threshold", "0.5", "--max-failed", "0.5")
    assert found["clean_merged"] == found["clean"] == CHILDREN // 2
    assert found["bad_release_reached"] <= 5
