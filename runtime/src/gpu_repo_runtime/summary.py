"""Write a table of test reports in Markdown, for the page of a build.

usage: summary REPORT.xml ...

A report that is missing or cannot be read is said in the table: it never looks like tests that passed.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def row(report: Path) -> str:
    """Return a report's line of the table, and one for each test that failed."""
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))
    except (OSError, ElementTree.ParseError, LookupError, ValueError):
        return f"| {report.name} | no report | | |\n"
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    names = "".join(f"| ↳ {_name_of(case)} | | failed | |\n" for case in failed)
    return f"| {report.name} | {len(cases) - len(failed) - skipped} | {len(failed)} | {skipped} |\n{names}"


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
