"""What the documentation names exists: scripts, targets, options and paths, in blocks and in the text."""

from __future__ import annotations

import re
import subprocess

from tests.conftest import ROOT
from tests.docs.blocks import PLACES, SPAN, all_blocks, prose, written
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


def test_every_block_is_valid_bash() -> None:
    text = "\n".join(f"{{ :; {block.text}\n}}" for block in BLOCKS)
    checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_blocks_name_only_what_exists() -> None:
    lines = [(block.name, line) for block in BLOCKS for line in block.text.replace("\\\n", " ").splitlines()]
    wrong = [f"{name}: {line.strip()}: {fault}" for name, line in lines for fault in faults(line)]
    assert not wrong, "\n".join(wrong)


def test_pages_name_only_what_exists() -> None:
    """Commands and paths between backticks in the text of a page."""
    spans = [(page, span) for page in written() for span in SPAN.findall(prose(page.read_text(encoding="utf-8")))]
    wrong = [f"{page.relative_to(ROOT)}: `{span}`: {fault}" for page, span in spans for fault in faults(span)]
    assert not wrong, "\n".join(wrong)
