"""Write a table of test reports in Markdown, for the page of a build.

usage: summary REPORT.xml ...

A report that is missing or cannot be read is said in the table: it never looks like tests that passed.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from .verdict import junit_problems, kind, outcome, read_report


def row(report: Path) -> str:
    """Return a report's line of the table, and one for each test that failed or reason not to believe it."""
    try:
        cases = [one for one in read_report(report).iter() if kind(one) == "testcase"]
    except OSError:
        return f"| {report.name} | no report | | |\n"
    found = [outcome(case) for case in cases]
    told = [_name_of(case) for case, one in zip(cases, found) if one == "failed"]  # noqa: B905 - an agent's Python
    problems = [] if told else [line.partition(": ")[2] for line in junit_problems(report)]
    lines = "".join(f"| ↳ {line} | | failed | |\n" for line in told + problems)
    counts = " | ".join(str(found.count(one)) for one in ("passed", "failed", "skipped"))
    return f"| {report.name} | {counts} |\n{lines}"


def _name_of(case: ElementTree.Element) -> str:
    """Return a test's name as code: whoever names it, a person or his data, writes no other line of the table."""
    words = " ".join(f"{case.get('classname', '')} {case.get('name', '')}".split())
    return f"`{words.replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def main(arguments: list[str]) -> int:
    """Print the table of the reports named on the command line."""
    lines = "".join(row(Path(argument)) for argument in arguments)
    print(f"| report | passed | failed | skipped |\n|---|---|---|---|\n{lines}", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
