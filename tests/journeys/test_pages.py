"""Pages and journeys stay together: each page has its journey, and a journey follows each section of its page."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import ROOT
from tests.journeys.blocks import blocks

JOURNEYS = {
    path.name: (match[1], text)
    for path in sorted(Path(__file__).parent.glob("test_*.py"))
    if (match := re.search(r'(?m)^PAGE = "([^"]+)"$', text := path.read_text(encoding="utf-8")))
}
PAGES = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))


def test_each_page_names_its_journey_or_the_readme_gives_the_reason() -> None:
    reasons = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    for page in (page for page in PAGES if not page.startswith("decisions/")):
        named = re.findall(r"tests/journeys/(\w+\.py)", (ROOT / "docs" / page).read_text(encoding="utf-8"))
        runs = [name for name, (own, _) in JOURNEYS.items() if own == page]
        assert set(runs) <= set(named), f"{page} does not name {runs}"
        assert named or f"`docs/{page}`" in reasons, f"{page} has no journey: give the reason in README.md"


def test_a_journey_follows_every_section_of_its_page() -> None:
    for journey, (page, steps) in JOURNEYS.items():
        sections = {block.section for block in blocks(ROOT / "docs" / page) if block.mark != "not run"}
        assert sorted(section for section in sections if section not in steps) == [], f"{page}: {journey} omits these"
