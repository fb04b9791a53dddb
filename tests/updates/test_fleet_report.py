"""The fleet's page, opened in Debian's Chromium: it sorts, filters and shows a child's diff."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fleetkit import report
from fleetkit.state import Record, State

from tests.updates.browser import opened

PATCH = "diff --git a/Dockerfile b/Dockerfile\n@@ -1 +1 @@\n-old line\n+new </script><b>line</b>\n"
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1100,1000"]


def child(name: str, outcome: str, version: str, **more: object) -> Record:
    """Return what is remembered of one child."""
    files = [{"path": "Dockerfile", "kind": "conflict" if outcome == "conflict" else "updated", "note": ""}]
    return {"name": name, "outcome": outcome, "from": version, "wave": "rest", "owner": "team-a", "files": files} | more


def write_page(folder: Path) -> Path:
    """Write the report of a made-up fleet and return the page."""
    state = State(folder / "state")
    (state.folder / "patches" / "ranker.patch").write_text(PATCH)
    state.write_plan({"to": "v0.10.0", "finished": True})
    records = [
        child("topic-finder", "clean", "v0.9.0", wave="canary"),
        child("ranker", "conflict", "v0.10.0", patch="ranker.patch"),
        child("spam-filter", "error", "v0.2.0", message="the template cannot be reached", files=[]),
        child("summaries", "up to date", "v0.10.0", owner="team-b", wave="early"),
        child(
            "embedder",
            "at risk",
            "v0.9.0",
            files=[
                {
                    "path": "scripts/old",
                    "kind": "at risk",
                    "note": "the template renamed this file: your edit is in scripts/new",
                }
            ],
        ),
        child("old-one", "test failed", "v0.2.0"),
    ]
    report.write(state, records, folder, "Fleet plan to v0.10.0")
    return folder / "fleet.html"


def rows(document: str) -> list[str]:
    """Return the names of the children that are shown, in their order."""
    return re.findall(r'<tr class="child"[^>]*><td>([^<]+)</td>', document)


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_page_sorts_by_outcome_version_and_name(tmp_path: Path) -> None:
    page = write_page(tmp_path)
    first = ["spam-filter", "embedder", "old-one", "ranker", "topic-finder", "summaries"]
    assert rows(opened(page, "")) == first, "the worst outcome comes first"
    by_version = ["old-one", "spam-filter", "embedder", "topic-finder", "ranker", "summaries"]
    assert rows(opened(page, "sort=from")) == by_version, "0.10 is newer than 0.9"
    assert rows(opened(page, "sort=-name"))[0] == "topic-finder"


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_page_filters_by_words_and_outcome(tmp_path: Path) -> None:
    page = write_page(tmp_path)
    assert rows(opened(page, "filter=team-b")) == ["summaries"]
    assert rows(opened(page, "outcome=conflict")) == ["ranker"]
    assert rows(opened(page, "filter=nothing-like-it")) == []


@pytest.mark.needs("chromium")
def test_page_shows_the_diff_of_a_child_as_text(tmp_path: Path) -> None:
    document = opened(write_page(tmp_path), "open=ranker")
    assert '<span class="m">-old line\n</span>' in document
    assert "+new &lt;/script&gt;&lt;b&gt;line&lt;/b&gt;" in document
    assert "conflict: Dockerfile" in document


@pytest.mark.needs("chromium")
def test_page_runs_nothing_that_a_host_or_a_child_says(tmp_path: Path) -> None:
    """An address that is a program, and a patch that turns the direction of what a reviewer reads."""
    state = State(tmp_path / "state")
    (state.folder / "patches" / "one.patch").write_text("+if admin:\u202e # \u2066\n")
    record = child("one", "clean", "v0.9.0", patch="one.patch", pushed={"address": "javascript:alert(1)"})
    report.write(state, [record], tmp_path, "Fleet")
    document = opened(tmp_path / "fleet.html", "open=one")
    assert "<a>javascript:alert(1)</a>" in document
    assert "+if admin:\ufffd # \ufffd" in document
    assert "default-src 'none'" in (tmp_path / "fleet.html").read_text()


def test_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    text = write_page(tmp_path).read_text()
    assert not re.search(r"""(src|href)=["'](?!#)""", text), "the page loads something"
    assert "@import" not in text
