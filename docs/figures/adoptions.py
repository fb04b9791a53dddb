"""What came of adopting public repositories, from the result file of their measurement."""

from __future__ import annotations

from textwrap import fill
from typing import Any

from docs.figures.blocks import table
from docs.figures.measured import WIDTH, load, machine_of

Row = dict[str, Any]
HEAD = """\
Measured by `benchmarks/adopt/run.py` on {machine}: {count} public repositories at the commits of \
`benchmarks/adopt/repositories.yml`, each adopted with the answers that were found. {alone} join without manual \
work, {listed} with a to-do list, {rest} fail. {lost} lines are lost. None took more than {slowest:.0f} s of processor \
time; the machine did other work meanwhile (load {least} to {most})."""
MEANS = """\
Without manual work means: the packages are locked under the image's versions, the to-do list is empty, and an update \
to the same version changes nothing. A later release arrives without a conflict in {arrives}. {setup} The result \
file names the measured commit of this repository."""


def adopted(row: Row) -> bool:
    """Return whether a repository joined: nothing is lost, and an update to the same version changes nothing."""
    return bool("answers" in row and row.get("lost_lines") == 0 and row.get("update_again") == "no-op")


def arrives(row: Row) -> bool:
    """Return whether a later release arrives without a conflict."""
    found = row.get("later_release", {})
    return found.get("exit") == 0 and not found.get("conflicts")


def cells(row: Row) -> list[str]:
    """Return what the table says of one repository."""
    name = f"[{row['name']}](https://github.com/{row['name']})"
    if not adopted(row):
        return [name, row["kind"], "failed", "-", "-"]
    taken = f"{row['answers']['project_type']}, {row['answers']['framework']}"
    return [name, row["kind"], taken, f"{row['cpu_s']:.0f} s", str(len(row["to_do"]))]


def adoptions() -> str:
    """Return what came of all of them, and of each."""
    found = load("benchmarks/adopt/result.json")
    rows: list[Row] = found["repositories"]
    good, loads = [row for row in rows if adopted(row)], [row["load_average"] for row in rows]
    alone, tried = sum(not row["to_do"] for row in good), [row["setup"] for row in good if row["setup"] != "not run"]
    words = {
        "machine": machine_of(found["machine"]), "count": len(rows), "alone": alone, "listed": len(good) - alone,
        "rest": len(rows) - len(good), "lost": sum(row.get("lost_lines", 0) for row in rows),
        "least": min(loads), "most": max(loads), "slowest": max(row.get("cpu_s", 0) for row in rows),
        "arrives": sum(map(arrives, good)),
        "setup": f"`scripts/setup` passes in {tried.count('ok')} of {len(tried)}.",
    }  # fmt: skip
    texts = [fill(text.format_map(words), WIDTH) for text in (HEAD, MEANS)]
    columns = ["repository", "kind", "taken for", "processor time", "to do"]
    return "\n\n".join([*texts, table(columns, [cells(row) for row in rows])])
