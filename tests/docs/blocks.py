"""The commands of the documentation: fenced blocks of bash, each with the comment before it that says how it is run.

nothing                                   run in a copy of this repository, by `make test-slow`
<!-- run in: service -->                  run in a child of that type that is set up, by `make test-release`
<!-- run in: service, until: /readyz -->  started in the background until that path answers; stopped at the page's end
<!-- not run: REASON -->                  checked only: syntax, scripts, targets, options and paths exist

The blocks of one page run in their order and in one folder.
tests/journeys/ runs those of docs/how-to/ and docs/tutorials/.
"""

from __future__ import annotations

import re
import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path

from docs.figures.blocks import pages
from tests.answers import TYPES
from tests.conftest import ROOT

FENCE = re.compile(
    r"(?ms)^(?P<indent> *)(?:<!-- (?P<how>(?:not run|run in): [^\n]*?) -->\n(?P=indent))?"
    r"```bash\n(?P<text>.*?)^ *```$"
)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PLACES = ("parent", *TYPES)


@dataclass(frozen=True)
class Block:
    """One block: where it stands, what it holds, how it is run."""

    page: str
    line: int
    text: str
    how: str

    @property
    def reason(self) -> str:
        """Return why it is not run, "" for a block that is."""
        return self.how.removeprefix("not run:").strip() if self.how.startswith("not run:") else ""

    @property
    def place(self) -> str:
        """Return where it is run."""
        return self.how.removeprefix("run in:").split(",")[0].strip() if self.how.startswith("run in:") else "parent"

    @property
    def until(self) -> str:
        """Return the path to wait for with the block in the background, "" for one that ends by itself."""
        return self.how.partition("until:")[2].strip()

    @property
    def slow(self) -> bool:
        """Tell whether it is left to `make test-release`, or to nobody."""
        return bool(self.how)

    @property
    def name(self) -> str:
        """Name the block where a test fails."""
        return f"{self.page}:{self.line}"


def blocks_of(text: str, page: str) -> list[Block]:
    """Return the blocks of one page."""
    return [
        Block(page, text[: match.start("text")].count("\n") + 1, textwrap.dedent(match["text"]), match["how"] or "")
        for match in FENCE.finditer(text)
    ]


def all_blocks() -> list[Block]:
    """Return the blocks of README.md, CONTRIBUTING.md and docs/."""
    return [
        block
        for page in written()
        for block in blocks_of(page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix())
    ]


def written() -> list[Path]:
    """Return the pages whose blocks are run by the tests of this folder."""
    return [page for page in pages() if page.parent.name not in ("how-to", "tutorials")]


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
        wrong += [f"{block.name}: {checked.stderr.strip()}"] if checked.returncode else []
    words = "\n".join([*(block.text for block in blocks), *SPAN.findall(prose(text))])
    names = set(re.findall(r"(?<![\w.])((?:scripts|deploy|src|tests)/[\w./-]*\w)", words))
    return wrong + sorted(name for name in names if not (child / name).exists())
