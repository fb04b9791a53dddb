"""Pages and journeys stay together: each guide has its journey, and a journey follows each section of its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.journeys.blocks import blocks

JOURNEYS = {
    path.name: (match[1], text)
    for path in sorted(Path(__file__).parent.glob("test_*.py"))
    if (match := re.search(r'(?m)^PAGE = "([^"]+)"$', text := path.read_text(encoding="utf-8")))
}
GUIDES = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs/how-to").glob("*.md"))


def test_each_guide_that_can_be_run_has_its_journey() -> None:
    followed = {page for page, _ in JOURNEYS.values()}
    runs = [page for page in GUIDES if any(block.mark != "not run" for block in blocks(ROOT / "docs" / page))]
    assert [page for page in runs if page not in followed] == [], "no journey in tests/journeys has this PAGE"


@pytest.mark.parametrize("journey", JOURNEYS)
def test_a_journey_follows_every_section_of_its_page(journey: str) -> None:
    page, steps = JOURNEYS[journey]
    sections = {block.section for block in blocks(ROOT / "docs" / page) if block.mark != "not run"}
    assert sorted(section for section in sections if section not in steps) == [], f"{page}: {journey} leaves these out"
