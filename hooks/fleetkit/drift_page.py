"""The page of drift: one HTML file that stands alone, JSON, and Markdown for a wiki. All text of children is text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jinja2

from fleetkit.children import UNSEEN
from fleetkit.state import Record

PAGE = Path(__file__).with_name("drift.html")
SHOWN = 300  # characters of one text that the page shows
MARKDOWN = re.compile(r"([\\`*_\[\]<>|#&~!])")


def plain(value: Any) -> Any:
    """Return data whose texts hold nothing that is not seen as it stands."""
    if isinstance(value, str):
        text = UNSEEN.sub("\ufffd", value)
        return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    if isinstance(value, dict):
        return {plain(key): plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list) else value


def days(count: int | None) -> str:
    """Return a number of days in words."""
    if count is None:
        return ""
    return "today" if count == 0 else "1 day" if count == 1 else f"{count} days"


def image_of(record: Record) -> tuple[str, str]:
    """Return the state of a child's image in words, and how bad it is: good, soon or over."""
    state, left = str(record.get("image_state", "")), record.get("image_days")
    if left is None:
        return state, "over" if state in ("retired", "unknown") else "good"
    words = f"{state} until {record['end_of_life']}" if left >= 0 else f"ended {record['end_of_life']}"
    return words, "over" if left < 0 or state == "retired" else "soon" if left < 180 else "good"


def row_of(record: Record, asked: bool) -> Record:
    """Return what the page shows of one child, and by what each column is sorted."""
    found, waiting = record.get("weaknesses"), record.get("requests") or []
    words, how = image_of(record)
    behind, oldest = record.get("behind"), max((one["days"] or 0 for one in waiting), default=-1)
    return {
        "name": record["name"], "owner": record.get("owner", ""), "wave": record.get("wave", ""),
        "paused": bool(record.get("paused")), "error": record.get("error", ""),
        "version": record.get("version", ""), "behind": behind,
        "age": days(record.get("age_days")), "age_days": record.get("age_days"),
        "image": record.get("image", ""), "image_words": words, "image_how": how,
        "image_days": record.get("image_days"),
        "asked": asked and found is not None, "weaknesses": found or [],
        "requests": [one | {"age": days(one["days"]), "link": link(one["address"])} for one in waiting],
        "requests_error": record.get("requests_error", ""), "oldest": oldest,
    }  # fmt: skip


def link(address: str) -> str:
    """Return an address that may be followed, nothing for one that a browser would run."""
    return address if re.match(r"https?://", address) else ""


def worst_first(row: Record) -> tuple[Any, ...]:
    """Return the key by which children stand at first: weaknesses, then releases behind, then the oldest request."""
    image = {"over": 0, "soon": 1, "good": 2}[row["image_how"]]
    return (
        row["paused"],
        not row["error"],
        -len(row["weaknesses"]),
        image,
        -(row["behind"] or 0),
        -row["oldest"],
        row["name"],
    )


def counts(rows: list[Record]) -> list[tuple[int, str]]:
    """Return the numbers at the top of the page."""
    weak = [row for row in rows if row["weaknesses"]]
    told = [
        (len(rows), "children"),
        (sum(bool(row["behind"]) for row in rows), "behind the newest release"),
        (sum(row["image_how"] == "over" for row in rows if row["image_words"]), "with an image past its end"),
        (len(weak), "with known weaknesses"),
        (sum(len(row["requests"]) for row in rows), "open requests"),
        (sum(bool(row["error"]) for row in rows), "that cannot be read"),
    ]
    return told if any(row["asked"] for row in rows) else [one for one in told if "weaknesses" not in one[1]]


def note(asked: Record | None) -> str:
    """Return what the page knows of weaknesses, and from where."""
    if asked is None:
        return "Weaknesses: not looked for, no advisories were given (--advisories)."
    newest = f", the newest of {asked['newest'][:10]}" if asked["newest"] else ""
    unread = f"; {asked['unread']} files hold none that can be read" if asked["unread"] else ""
    return f"Weaknesses: by {asked['advisories']} advisories{newest}{unread}."


def markdown(data: Record, rows: list[Record]) -> str:
    """Return the page for a wiki."""

    def cell(text: object) -> str:
        return MARKDOWN.sub(r"\\\1", str(text)).replace("\n", " ")

    lines = ["# Drift of the fleet", "", f"{data['made'][:10]}. {note(data['advisories'])}", ""]
    lines += ["| child | owner | version | behind | age | image | weaknesses | open requests |", "|---" * 8 + "|"]
    for row in rows:
        weak = "; ".join(f"{one['package']} {one['version']} ({one['names'][0]})" for one in row["weaknesses"])
        weak = weak or ("none known" if row["asked"] else "not looked for")
        waiting = "; ".join(f"{one['title']} ({one['age']})" for one in row["requests"]) or row["requests_error"]
        behind = "?" if row["behind"] is None else row["behind"]
        version = row["error"] or ("paused" if row["paused"] else row["version"])
        image = f"{row['image']} {row['image_words']}".strip()
        told = (row["name"], row["owner"], version, behind, row["age"], image, weak, waiting)
        lines.append("| " + " | ".join(cell(text) for text in told) + " |")
    return "\n".join(lines) + "\n"


def write(data: Record, folder: Path) -> list[Record]:
    """Write drift.html, drift.json and drift.md into `folder`; return the rows as the page shows them."""
    folder.mkdir(parents=True, exist_ok=True)
    data = plain(data)
    rows = sorted((row_of(record, data["advisories"] is not None) for record in data["children"]), key=worst_first)
    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    html = page.from_string(PAGE.read_text(encoding="utf-8")).render(
        rows=rows, made=data["made"], note=note(data["advisories"]), counts=counts(rows)
    )
    (folder / "drift.html").write_text(html, encoding="utf-8")
    (folder / "drift.json").write_text(json.dumps(data, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
    (folder / "drift.md").write_text(markdown(data, rows), encoding="utf-8")
    return rows
