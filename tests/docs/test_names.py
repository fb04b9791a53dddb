"""What the documentation names exists: scripts, targets, options and paths, in blocks and in the text."""

from __future__ import annotations

import re
import subprocess

from docs.figures.blocks import pages
from tests.conftest import ROOT
from tests.docs.blocks import PLACES, SPAN, all_blocks, prose, written
from tests.docs.names import faults

BLOCKS = all_blocks()
PHRASES = (  # readers had to translate them
    r"(?i)\b(stands|is told|told by|tells|goes on|(?<!there )is no [a-z]+|beside|weakness(?:es)?|whoever|nobody"
    r"|in its place|of its own|such as \d|asked for|the way to|what is not)\b"
)


def test_every_block_says_how_it_is_run_in_known_words() -> None:
    for block in BLOCKS:
        assert block.place in PLACES, f"{block.name}: there is no place {block.place}"
        assert not block.how or block.reason or block.how.startswith(("run: slow", "run in: ")), block.name
    text = "".join(page.read_text(encoding="utf-8") for page in written())
    assert text.count("```bash\n") == len(BLOCKS), "a block of bash is not recognised"
    assert len(re.findall(r"<!-- (?:not run|run in|run): ", text)) == sum(bool(block.how) for block in BLOCKS)


def test_every_block_is_valid_bash() -> None:
    text = "\n".join(f"{{ :; {block.text}\n}}" for block in BLOCKS)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_blocks_name_only_what_exists() -> None:
    lines = [(block.name, line) for block in BLOCKS for line in block.text.replace("\\\n", " ").splitlines()]
    wrong = [f"{name}: {line.strip()}: {fault}" for name, line in lines for fault in faults(line)]
    assert not wrong, "\n".join(wrong)


def test_pages_name_only_what_exists() -> None:
    spans = [(page, span) for page in written() for span in SPAN.findall(prose(page.read_text(encoding="utf-8")))]
    wrong = [f"{page.relative_to(ROOT)}: `{span}`: {fault}" for page, span in spans for fault in faults(span)]
    assert not wrong, "\n".join(wrong)


def test_pages_use_the_words_of_the_field() -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in pages() if page.parent.name != "decisions"}
    wrong = [f"{page}: {hit[0]}" for page in texts for hit in re.finditer(PHRASES, SPAN.sub("", prose(texts[page])))]
    assert not wrong, "\n".join(wrong)
