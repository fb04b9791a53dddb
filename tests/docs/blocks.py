"""The commands of README.md, CONTRIBUTING.md and docs/: blocks of bash, with the marks of tests/journeys/blocks.py.

Without a mark a block is run in a copy of this repository, by `make test-slow`; on the pages of IN_CHILDREN in a child
that is set up, by `make test-release`. The blocks of one page run in their order and in one folder. What a block that
is not run names has to exist too. tests/journeys/ runs the blocks of docs/how-to/ and docs/tutorials/.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

from docs.figures.blocks import pages
from tests.conftest import ROOT
from tests.journeys.blocks import Block, parsed

SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
IN_CHILDREN = {"docs/batch.md": "batch", "docs/own-code.md": "library", "docs/service.md": "service"}


def blocks_of(text: str, page: str) -> list[Block]:
    """Return the blocks of bash of one page."""
    return [replace(block, mark=block.mark or "run") for block in parsed(text, page) if block.language == "bash"]


def written() -> list[Path]:
    """Return the pages whose blocks are run by the tests of this folder."""
    return [page for page in pages() if page.parent.name not in ("how-to", "tutorials")]


def all_blocks() -> dict[str, list[Block]]:
    """Return the blocks of each of these pages."""
    names = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in written()}
    return {name: blocks_of(text, name) for name, text in names.items()}


def prose(text: str) -> str:
    """Return a page without its fenced blocks."""
    return re.sub(r"(?ms)^ *```.*?^ *```$", "", text)


def missing_in_child(child: Path) -> list[str]:
    """Return what the README of a rendered child names and the child does not have, and blocks that do not parse."""
    text = (child / "README.md").read_text(encoding="utf-8")
    blocks = blocks_of(text, "README.md")
    wrong = [] if blocks else ["it shows no commands"]
    for block in blocks:
        checked = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
        wrong += [f"{block.where}: {checked.stderr.strip()}"] if checked.returncode else []
    words = "\n".join([*(block.text for block in blocks), *SPAN.findall(prose(text))])
    names = set(re.findall(r"(?<![\w.])((?:scripts|deploy|src|tests)/[\w./-]*\w)", words))
    return wrong + sorted(name for name in names if not (child / name).exists())
