"""No room grows: tools/lines.py holds each to its limit in CONTRIBUTING.md."""

from __future__ import annotations

import lines

from tests.conftest import ROOT


def test_no_room_has_more_lines_than_its_limit() -> None:
    found = lines.rooms((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert len(found) == 16, "the table of rooms in CONTRIBUTING.md"
    grown = [f"{room.path}: {room.lines} of {room.limit}" for room in found if room.lines > room.limit]
    assert not grown, f"rooms with too many lines: {grown}"


def test_a_limit_is_only_lowered() -> None:
    table = "| `tools` | x | y | 100 | 20 |\n| `hooks` | x | y | 1,000,000 | 20 |\n"
    first, second = lines.rooms(lines.lowered(table))
    assert (first.limit, second.limit) == (100, second.lines)
