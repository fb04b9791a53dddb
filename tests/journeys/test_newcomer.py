"""I am new, and type the commands of the README in a clone: the demo, then my own repository. In order.

`make test`, the README's second command, is this test's own run; tests/test_bare_machine.py runs it on a bare machine.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.blocks import blocks_of
from tests.docs.test_commands import parent_copy
from tests.journeys.child import Child

pytestmark = pytest.mark.slow
BLOCKS = [block.text for block in blocks_of((ROOT / "README.md").read_text(encoding="utf-8"), "README.md")]


@pytest.fixture(scope="module")
def clone(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Child:
    """Return a clone of this repository with the environment of this one."""
    return Child(parent_copy(template, tmp_path_factory.mktemp("newcomer")))


def test_the_first_block_shows_the_product_at_work(clone: Child) -> None:
    demo = next(line for line in BLOCKS[0].splitlines() if line.startswith("make demo"))
    clone.sh(demo, "README.md", expect="Next:")


def test_the_second_block_starts_my_own_repository(clone: Child) -> None:
    clone.sh(BLOCKS[1], "README.md", expect="passed")
