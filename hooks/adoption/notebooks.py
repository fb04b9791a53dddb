"""What notebooks import and install: they are often all the code that there is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

MAGIC = re.compile(r"^(\s*)(?:[!%?].*|.*\?\s*)$")
LARGEST = 50_000_000  # with its pictures a notebook is larger than code that somebody wrote
INSTALLED = re.compile(r"^\s*[!%]\s*(?:\S*python\S* -m )?(?:uv )?pip3? install\s+([^|&;#]+)")
NAMED = re.compile(r"[A-Za-z][\w.-]*(?:\[[\w,.-]+\])?(?:[<>=!~]=?[\w.*+,<>=!~]+)?")
WITH_A_VALUE = re.compile(
    r"-(i|f|r|c|t|e)|--(index-url|extra-index-url|find-links|requirement|constraint|target|editable)"
)


def cells(path: Path) -> list[str]:
    """Return the code cells of a notebook, none of one that cannot be read."""
    try:
        data = json.loads(path.read_bytes()) if path.stat().st_size < LARGEST else {}
        found = [cell for cell in data.get("cells", []) if cell.get("cell_type") == "code"]
        return ["".join(cell.get("source", "")) for cell in found]
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return []


def code_of(path: Path) -> str:
    """Return the Python of a notebook, without what its shell and its magic words do."""
    lines = [line for cell in cells(path) if not cell.lstrip().startswith("%%") for line in cell.splitlines()]
    return "".join(MAGIC.sub(r"\1pass", line) + "\n" for line in lines)


def installed_by(path: Path) -> list[str]:
    """Return the requirements that a notebook gives to pip by name."""
    return [text for cell in cells(path) for line in cell.splitlines() for text in _asked(line)]


def _asked(line: str) -> Iterator[str]:
    found = INSTALLED.match(line)
    words = iter(re.sub(r"[\"']", "", found[1]).split() if found else [])
    for word in words:
        if WITH_A_VALUE.fullmatch(word):
            next(words, None)
        elif NAMED.fullmatch(word) and not re.search(r"[/\\]|\.(whl|zip|gz)$", word):
            yield word
