"""Hooks of the site: lists that a program knows are written when the site is built, and kept in no page."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
MARK = re.compile(r"<!-- (codes|cases|scripts|settings|exits): [^\n]*-->")
PROGRAM = re.compile(r"<!-- help: ([a-z-]+) -->")
FIGURES = re.compile(r"<!-- figures: ([a-z-]+) -->")


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
    """Put each list and each table of figures in place of its mark, and the company's registry in the examples."""
    for folder in (ROOT / "base-images", ROOT):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    makers = import_module("docs.figures.__main__").MAKERS
    company = yaml.safe_load((ROOT / "company.yml").read_text(encoding="utf-8"))
    markdown = markdown.replace("registry.example.com/ml", company["registry"])
    markdown = import_module("docs.figures.blocks").fill(markdown, makers)
    markdown = FIGURES.sub(lambda mark: makers[mark.group(1)](), markdown)
    commands = import_module("docs.figures.commands")
    markdown = PROGRAM.sub(lambda mark: commands.program(mark.group(1)), markdown)
    lists = LISTS | {"scripts": commands.scripts, "settings": commands.settings, "exits": commands.exits_of_programs}
    return MARK.sub(lambda mark: lists[mark.group(1)](), markdown)
