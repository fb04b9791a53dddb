"""In CI (ALL_NEEDS=1) a skip fails the run, unless its reason is one of these, each of which loses nothing."""

from __future__ import annotations

import os
import re

import pytest

LOSES_NOTHING = re.compile(
    r"needs docker: .*"  # .ci/run has no engine beside the slow tests, and begins on a bare machine itself
    r"|\S+ has no compiler's headers.*"  # the plain rows compile the same calls
    r"|a plain image has no framework;.*|\S+ has no framework|only the torch images hold Triton"
    r"|[Pp]ython ?3\.\d+ is not installed here"  # tests run with each Python that is here
)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run, and name the reasons."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter and os.environ.get("ALL_NEEDS") else []
    reasons = {str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped}
    for reason in sorted(one for one in reasons if not LOSES_NOTHING.fullmatch(one)):
        reporter.write_line(f"\na skip that tests/skips.py does not list fails this run: {reason}")
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
