"""The report of a fleet: one HTML page that stands alone, JSON, and JUnit for a CI server."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

from gpu_repo_runtime.update.template_versions import version_of
from packaging.version import Version

from fleetkit.children import shown
from fleetkit.plan import OUTCOMES
from fleetkit.state import Record, State

PAGE = Path(__file__).with_name("report.html")
PATCH_LIMIT = 200_000  # characters of a patch that the page shows; the whole is in patches/
GOOD = ("clean", "up to date")
SKIPPED = ("paused", "left out")


def detail(state: State, record: Record) -> Record:
    """Return a child's record with its patch and log, as far as the page shows them."""
    texts = {}
    for key, folder in (("patch", "patches"), ("log", "logs")):
        place = state.folder / folder / record.get(key, "") if record.get(key) else None
        texts[f"{key}_text"] = (
            place.read_text(encoding="utf-8", errors="replace")[:PATCH_LIMIT] if place and place.exists() else ""
        )
    return record | texts


def message_of(record: Record) -> str:
    """Return why a child is not clean, in one line."""
    if record.get("message"):
        return str(record["message"])
    if record.get("to_do"):
        return "; ".join(record["to_do"])
    files = [
        f"{file['path']} ({file['kind']})"
        for file in record.get("files", [])
        if file["kind"] in ("conflict", "at risk")
    ]
    return ", ".join(files) or str(record.get("outcome", "not planned"))


def junit(records: list[Record]) -> str:
    """Return a JUnit report: a case for each child; what is left to a person fails, errors are errors."""
    counts = Counter("error" if r.get("outcome") == "error" else "bad" if is_bad(r) else "good" for r in records)
    suite = ET.Element(
        "testsuite", name="fleet", tests=str(len(records)), failures=str(counts["bad"]), errors=str(counts["error"])
    )
    for record in records:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=f"fleet.{record['wave']}",
            name=record["name"],
            time=str(record.get("seconds", 0)),
        )
        if record.get("outcome") in SKIPPED:
            ET.SubElement(case, "skipped", message=record.get("message") or "paused in fleet.yml")
        elif is_bad(record):
            kind = "error" if record["outcome"] == "error" else "failure"
            ET.SubElement(case, kind, message=message_of(record), type=record["outcome"]).text = record.get("patch", "")
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)


def is_bad(record: Record) -> bool:
    """Tell whether a person has to look at this child."""
    return record.get("outcome") not in (*GOOD, *SKIPPED)


def write(state: State, records: list[Record], folder: Path, title: str) -> None:
    """Write fleet.html, fleet.json and fleet.xml into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    counts = Counter(str(record.get("outcome", "")) for record in records)
    versions = Counter(str(record.get("from") or "unknown") for record in records)
    data = {
        "title": title,
        "plan": state.plan(),
        "counts": {name: counts[name] for name in OUTCOMES if counts[name]},
        "versions": dict(sorted(versions.items(), key=lambda item: version_of(item[0]) or Version("0"))),
        "children": records,
    }
    (folder / "fleet.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    (folder / "fleet.xml").write_text(junit(records), encoding="utf-8")
    whole = data | {"children": [shown(detail(state, record)) for record in records]}
    embedded = json.dumps(whole).replace("<", "\\u003c")  # no text of a child can close the script element
    (folder / "fleet.html").write_text(
        PAGE.read_text(encoding="utf-8").replace('"DATA"', embedded, 1), encoding="utf-8"
    )
