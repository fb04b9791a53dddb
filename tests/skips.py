"""Skips are counted by reason at the end; where ONLY_LISTED_SKIPS is set, one that skips.yml does not list fails."""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import yaml

LIST = Path(__file__).with_name("skips.yml")
STRICT = "ONLY_LISTED_SKIPS"


@cache
def entries() -> list[dict[str, str]]:
    """Return the skips that lose nothing."""
    found: list[dict[str, str]] = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    return found


def is_listed(name: str, reason: str) -> bool:
    """Tell whether an entry lets this test skip for this reason."""
    return any(name.startswith(one["test"]) and re.fullmatch(one["reason"], reason) for one in entries())


def skips(reporter: pytest.TerminalReporter) -> list[tuple[str, str]]:
    """Return the tests that were skipped and their reasons."""
    reports = reporter.stats.get("skipped", [])
    return [(report.nodeid, str(report.longrepr[2]).removeprefix("Skipped: ")) for report in reports]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run for a skip that is not listed, where ONLY_LISTED_SKIPS is set."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and os.environ.get(STRICT) and not all(is_listed(*skip) for skip in skips(reporter)):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line for each reason; with ONLY_LISTED_SKIPS, one for each test that fails the run."""
    found = skips(terminalreporter)
    for reason, count in Counter(reason for _, reason in found).most_common():
        terminalreporter.write_line(f"skipped {count}: {reason}")
    for name, reason in found if os.environ.get(STRICT) else ():
        if not is_listed(name, reason):
            terminalreporter.write_line(f"skipped and not in tests/skips.yml, which fails this run: {name}: {reason}")
