"""What the documentation names exists: scripts, targets, options and paths, in blocks and in the text."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.blocks import PLACES, SPAN, Block, all_blocks, prose, written
from tests.docs.names import faults

BLOCKS = all_blocks()


def test_every_block_says_how_it_is_run_in_known_words() -> None:
    """A misspelt comment would make a block run where it must not, or nowhere."""
    for block in BLOCKS:
        assert block.place in PLACES, f"{block.name}: there is no place {block.place}"
        known = not block.how or block.reason or block.how == "run: slow" or block.how.startswith("run in: ")
        assert known, f"{block.name}: <!-- {block.how} --> is not known"
    text = "".join(page.read_text(encoding="utf-8") for page in written())
    assert text.count("```bash\n") == len(BLOCKS), "a block of bash is not recognised"
    assert len(re.findall(r"<!-- (?:not run|run in|run): ", text)) == sum(bool(block.how) for block in BLOCKS)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_block_names_only_what_exists(block: Block) -> None:
    checked = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, f"{block.name}: {checked.stderr}"
    lines = block.text.replace("\\\n", " ").splitlines()
    wrong = [f"{line.strip()}: {fault}" for line in lines for fault in faults(line)]
    assert not wrong, f"{block.name}: {wrong}"


@pytest.mark.parametrize("page", written(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_only_what_exists(page: Path) -> None:
    """Commands and paths between backticks in the text of a page."""
    spans = SPAN.findall(prose(page.read_text(encoding="utf-8")))
    wrong = [f"`{span}`: {fault}" for span in spans for fault in faults(span)]
    assert not wrong, f"{page.relative_to(ROOT)}: {wrong}"
