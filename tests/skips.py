"""What is skipped is counted and named in one line; where ONLY_LISTED_SKIPS is set, any other skip fails the run."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

LIST = Path(__file__).with_name("skips.yml")
STRICT = "ONLY_LISTED_SKIPS"


def listed(name: str, reason: str) -> str:
    """Return the short name of the entry that lets this test skip for this reason, "" where none does."""
    for entry in yaml.safe_load(LIST.read_text(encoding="utf-8")):
        if name.startswith(entry["test"]) and re.fullmatch(entry["reason"], reason):
            return str(entry["name"])
    return ""


def skips(reporter: pytest.TerminalReporter) -> list[tuple[str, str]]:
    """Return the tests that were skipped and their reasons."""
    reports = reporter.stats.get("skipped", [])
    return [(report.nodeid, str(report.longrepr[2]).removeprefix("Skipped: ")) for report in reports]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run for a skip that is not on the list, if that is asked for."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and os.environ.get(STRICT) and not all(listed(*skip) for skip in skips(reporter)):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many were skipped and why, and name each skip that is not on the list."""
    found = skips(terminalreporter)
    known = Counter(name for name in (listed(*skip) for skip in found) if name)
    if known:
        terminalreporter.write_line(
            f"skipped as tests/skips.yml says: {', '.join(f'{n} {k}' for k, n in known.items())}"
        )
    for name, reason in found:
        if not listed(name, reason):
            failed = ", which fails this run" if os.environ.get(STRICT) else ""
            terminalreporter.write_line(f"skipped and not in tests/skips.yml{failed}: {name}: {reason}")
