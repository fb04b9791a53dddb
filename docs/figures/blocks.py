"""What is generated in a page stands between two marks: `<!-- made by make figures: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(?s)<!-- made by make figures: ([a-z-]+) -->\n(.*?)<!-- end -->\n")


def pages() -> list[Path]:
    """Return README.md, CONTRIBUTING.md and every page of docs/, decisions too."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def fill(text: str, makers: Mapping[str, Callable[[], str]]) -> str:
    """Return `text` with every block made anew. Raises KeyError for a block that nobody makes."""

    def made(match: re.Match[str]) -> str:
        head = match[0].partition("\n")[0]
        return f"{head}\n\n{makers[match[1]]().strip()}\n\n<!-- end -->\n"

    return BLOCK.sub(made, text)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"
