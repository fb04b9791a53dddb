"""Count the lines of each room and compare them with the table in CONTRIBUTING.md.

usage: python tools/lines.py           print the table; exit code 1 where a room has more lines than it may
       python tools/lines.py --lower   write the limits down to what the rooms have now, never below their goal

Lines are the physical lines of Python files that git tracks; below templates/, those of every file that people edit. A
file belongs to the room with the longest path that it begins with.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "CONTRIBUTING.md"
ROW = re.compile(r"(?m)^\| `(?P<path>[\w/.-]+)`(?P<what> \| .* \| )(?P<limit>[\d,]+) \| (?P<goal>[\d,]+) \|$")
NOT_EDITED = re.compile(r"\.(lock|whl|npz|png)$|^templates/locks/")


@dataclass(frozen=True)
class Room:
    """A folder (or file) with its number of lines, the most that it may have, and the goal of the design."""

    path: str
    lines: int
    limit: int
    goal: int


def room_of(file: str, paths: list[str]) -> str:
    """Return the longest of the paths that a file is in, "" where none is."""
    return max((path for path in paths if file == path or file.startswith(f"{path}/")), key=len, default="")


def counted(file: str) -> bool:
    """Tell whether the lines of a file count."""
    return not NOT_EDITED.search(file) if file.startswith("templates/") else file.endswith((".py", "copier.yml"))


def rooms(table: str) -> list[Room]:
    """Return the rooms of the table with their lines now."""
    rows = list(ROW.finditer(table))
    lines = dict.fromkeys((row["path"] for row in rows), 0)
    shown = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for file in filter(counted, shown.split("\0")):
        room = room_of(file, list(lines))
        if room and (ROOT / file).is_file():
            lines[room] += (ROOT / file).read_bytes().count(b"\n")
    return [Room(row["path"], lines[row["path"]], number(row["limit"]), number(row["goal"])) for row in rows]


def number(text: str) -> int:
    """Return the number that a cell of the table shows."""
    return int(text.replace(",", ""))


def lowered(table: str) -> str:
    """Return the table with each limit at the lines of now, no lower than the goal and no higher than before."""
    found = {room.path: min(room.limit, max(room.lines, room.goal)) for room in rooms(table)}
    return ROW.sub(lambda row: f"| `{row['path']}`{row['what']}{found[row['path']]:,} | {row['goal']} |", table)


def main() -> int:
    """Print the rooms, or lower their limits; return the exit code."""
    parser = argparse.ArgumentParser(description="Count the lines of each room.")
    parser.add_argument("--lower", action="store_true", help="write the limits in CONTRIBUTING.md down to now")
    options = parser.parse_args()
    if options.lower:
        TABLE.write_text(lowered(TABLE.read_text(encoding="utf-8")), encoding="utf-8")
    found = rooms(TABLE.read_text(encoding="utf-8"))
    print(f"{'room':45} {'lines':>7} {'at most':>7} {'goal':>7}")
    for room in found:
        over = "  too many" if room.lines > room.limit else ""
        print(f"{room.path:45} {room.lines:7,} {room.limit:7,} {room.goal:7,}{over}")
    return 1 if any(room.lines > room.limit for room in found) else 0


if __name__ == "__main__":
    sys.exit(main())
