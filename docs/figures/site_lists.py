"""Hooks of the site: lists that a program knows are written when the site is built, and kept in no page."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MARK = re.compile(r"<!-- (codes|cases): [^\n]*-->")


def codes() -> str:
    """Return every finding of gpu-smoke, as `gpu-smoke --explain all` prints them."""
    from gpu_smoke.explain import markdown

    return markdown()


def cases() -> str:
    """Return the table of the failures that gpu-smoke's tests inject."""
    found = import_module("tests.gpu_smoke.smoke_cases").CASES  # by its name: pages import no tests otherwise
    rows = [f"| `{case.name}` | {case.number} | {case.what} | {case.code} |" for case in found]
    return "\n".join(["| case | number | what is injected | finding |", "|---|---|---|---|", *rows])


LISTS = {"codes": codes, "cases": cases}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put each list where its mark stands."""
    for folder in (ROOT / "base-images", ROOT):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    return MARK.sub(lambda mark: LISTS[mark.group(1)](), markdown)
