"""One line for each child: what a command found or did, as a table, as JSON or as a page, and the exit code."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape

CODES = {"error": 5, "draft": 3}
COLUMNS = ("child", "version", "state", "checks", "pull request", "reason")
PAGE = """<!doctype html>
<meta charset="utf-8"><title>{head}</title>
<style>body {{ font: 14px sans-serif; margin: 2em }} td, th {{ padding: .3em .8em; text-align: left }}
tr:nth-child(even) {{ background: #f4f4f4 }} .red, .error {{ color: #b00 }} .green, .merged {{ color: #070 }}</style>
<h1>{head}</h1><p>{sum}</p>
<table><tr>{titles}</tr>
{rows}
</table>
"""


@dataclass
class Row:
    """One child."""

    name: str
    state: str
    version: str = ""
    request: str = ""
    reason: str = ""
    checks: str = ""
    canary: bool = False
    behind: bool = False
    withdrawn: bool = False

    def cells(self) -> tuple[str, ...]:
        """Return the texts of COLUMNS."""
        name = f"{self.name} (canary)" if self.canary else self.name
        marks = ["withdrawn"] * self.withdrawn + ["behind"] * self.behind
        version = f"{self.version} ({', '.join(marks)})" if marks else self.version
        return (name, version, self.state, self.checks, self.request, self.reason)


def code(rows: Sequence[Row]) -> int:
    """Return the exit code of the worst child."""
    return max((CODES.get(row.state, 0) for row in rows), default=0)


def total(rows: Sequence[Row]) -> str:
    """Return how many children there are in each state."""
    count = ", ".join(f"{count} {state}" for state, count in sorted(Counter(row.state for row in rows).items()))
    behind = sum(row.behind for row in rows)
    return f"{len(rows)} children: {count}" + (f"; {behind} behind the newest release" if behind else "")


def as_json(head: str, rows: Sequence[Row], result: int) -> str:
    """Return the rows for a program."""
    return json.dumps({"head": head, "code": result, "children": [asdict(row) for row in rows]}, indent=2)


def as_table(head: str, rows: Sequence[Row]) -> str:
    """Return a header, one line for each child and the total. The reason is last, because it may be long."""
    cells = [COLUMNS, *(row.cells() for row in rows)]
    used = [at for at in range(len(COLUMNS)) if any(line[at] for line in cells[1:])]
    widths = {at: max(len(line[at]) for line in cells) for at in used}
    lines = ["  ".join(line[at].ljust(widths[at]) for at in used).rstrip() for line in cells]
    return "\n".join([head, *lines, total(rows)])


def as_html(head: str, rows: Sequence[Row]) -> str:
    """Return a page with the same table."""
    lines = []
    for row in rows:
        texts = [
            f'<a href="{escape(text)}">{escape(text)}</a>' if text.startswith("https://") else escape(text)
            for text in row.cells()
        ]
        cells = "".join(f"<td>{text}</td>" for text in texts)
        lines.append(f'<tr class="{escape(row.checks or row.state)}">{cells}</tr>')
    titles = "".join(f"<th>{title}</th>" for title in COLUMNS)
    return PAGE.format(head=escape(head), sum=escape(total(rows)), titles=titles, rows="\n".join(lines))
