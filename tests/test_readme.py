"""The README links to what exists, and lists types and scripts."""

from __future__ import annotations

import re

from tests.answers import TYPES
from tests.conftest import ROOT


def test_its_links_lead_somewhere():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    missing = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if not (ROOT / link).exists()]
    assert not missing, f"README.md: {missing}"


def test_the_table_of_types_is_that_of_the_question():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    head = "| type | what you get |\n|---|---|\n"
    table = re.findall(r"(?m)^\| ([a-z]+) \|", text.partition(head)[2].partition("\n\n")[0])
    assert sorted(table) == sorted(TYPES), "README.md: types"


def test_the_commands_of_every_child_are_in_the_readme():
    """`scripts/setup lint ...`: what the three types have in common."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"`scripts/([a-z ]+)`", text)
    assert found, "README.md does not list the scripts"
    for project_type in TYPES:
        missing = [n for n in found[1].split() if not (ROOT / f"templates/{project_type}/scripts/{n}.jinja").exists()]
        assert not missing, f"README.md: a {project_type} has no {missing}"
