"""What came of adopting public repositories, from the result file of their measurement."""

from __future__ import annotations

from textwrap import fill
from typing import Any

from docs.figures.blocks import table
from docs.figures.measured import WIDTH, load, machine_of

Row = dict[str, Any]
HEAD = """\
Measured by `benchmarks/adopt/run.py` on {machine}: {count} public repositories at the commits of \
`benchmarks/adopt/repositories.yml`, each adopted with the answers that were found. {alone} work without a hand, \
{listed} work and leave a list of what to do, {rest} do not work yet. {lost} lines of theirs are lost. The slowest \
took {slowest:.0f} s to adopt; the machine did other work meanwhile (load {least} to {most})."""
WORKS = """\
It works where `scripts/setup` and `scripts/lint` pass, the template's tests pass, no test of theirs that passed \
before fails, an update to the same version changes nothing, and a later release arrives without a conflict. PyTorch \
was here another version than the image's, for the CPU, and no model could be fetched: tests of theirs that need \
either fail before and after. A run of tests is stopped after {limit} s; the template's have a run of their own. \
{commits}"""


def works(row: Row) -> bool:
    """Tell whether all is well in a repository that was adopted."""
    ran = row.get("tests", {})
    ours = ran.get("of_the_template", {})
    tested = ours.get("passed", 0) > 0 and not ours.get("failure", 0) + ours.get("error", 0) and not ran.get("worse")
    fine = row.get("lost_lines") == 0 and row.get("setup") == row.get("lint") == "ok"
    return bool(tested and fine and row.get("update_again") == "no-op" and later(row) == "arrives")


def later(row: Row) -> str:
    """Return how a later release fares, in a word."""
    found = row.get("later_release", {})
    return "arrives" if found.get("exit") == 0 and not found.get("conflicts") else "does not arrive"


def passed(row: Row) -> str:
    """Return how many tests of theirs passed before and after."""
    ran = row.get("tests")
    if not ran:
        return "-"
    before, after = ran["theirs_before"]["passed"], ran["theirs_after"]["passed"]
    return f"{before}, {after}" + (", stopped" if ran.get("stopped") else "")


def cells(row: Row) -> list[str]:
    """Return what the table says of one repository."""
    name = f"[{row['name']}](https://github.com/{row['name']})"
    if "answers" not in row:
        return [name, row["kind"], "refused", "-", "-", "-", "-", "-"]
    setup = "yes" if row.get("setup") == "ok" else "no"
    lint = "yes" if row.get("lint") == "ok" else "no" if setup == "yes" else "-"
    taken = f"{row['answers']['project_type']}, {row['image']}"
    return [name, row["kind"], taken, f"{row['seconds']:.0f} s", setup, passed(row), lint, str(len(row["to_do"]))]


def limits(found: Row) -> str:
    """Return after how many seconds a run of tests was stopped, in words: a busy machine was given more."""
    seconds = sorted({row.get("limit_s", found["limit_s"]) for row in found["repositories"]})
    return " or ".join(map(str, seconds))


def commits(rows: list[Row]) -> str:
    """Return from how many commits of this repository the rows are, and how many are of the latest measurement."""
    made = [str(row.get("measured", "")) for row in rows]
    return f"The rows were measured at {len(set(made))} commits of this repository, which the result file names."


def adoptions() -> str:
    """Return what came of all of them, and of each."""
    found = load("benchmarks/adopt/result.json")
    rows: list[Row] = found["repositories"]
    good = [row for row in rows if works(row)]
    loads = [row["load_average"] for row in rows]
    alone = sum(not row["to_do"] for row in good)
    words = {
        "machine": machine_of(found["machine"]), "count": len(rows), "alone": alone, "listed": len(good) - alone,
        "rest": len(rows) - len(good), "lost": sum(row.get("lost_lines", 0) for row in rows),
        "least": min(loads), "most": max(loads), "limit": limits(found), "commits": commits(rows),
        "slowest": max(row.get("seconds", 0) for row in rows),
    }  # fmt: skip
    columns = ["repository", "kind", "taken for", "adopted in", "setup", "tests passed before, after", "lint", "to do"]
    texts = [fill(text.format_map(words), WIDTH) for text in (HEAD, WORKS)]
    return "\n\n".join([*texts, table(columns, [cells(row) for row in rows])])
