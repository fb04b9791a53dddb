"""The report as JUnit XML: one test case per layer, so that Jenkins shows which one failed."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import quoteattr

from .build import xml_safe

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def render(report: dict[str, Any]) -> str:
    """Return the XML text. A layer that is required and does not pass is a failure, whatever its state is."""
    cases = [_case(layer, report) for layer in report["layers"]]
    failures = sum("<failure" in case for case in cases)
    skipped = sum("<skipped" in case for case in cases)
    attributes = (
        f'name="gpu-smoke" tests="{len(cases)}" failures="{failures}" errors="0" skipped="{skipped}" '
        f'time="{report["seconds"]}" timestamp={_quoted(report["started"])}'
    )
    body = "\n".join(cases)
    return f"{HEAD}<testsuites>\n<testsuite {attributes}>\n{body}\n</testsuite>\n</testsuites>\n"


def _case(layer: dict[str, Any], report: dict[str, Any]) -> str:
    state, required = layer["state"], layer["name"] in report["unmet"]
    told = "; ".join(
        f"{f['code']} {f['title']}. {f['evidence']} FIX: {f['fix']} {f.get('apart', '')}".rstrip()
        for f in layer["findings"]
    )
    reason = f"blocked by {layer['blocked_by']}" if layer["blocked_by"] else layer["summary"]
    text = "; ".join(part for part in (reason, told) if part) or state
    inner = ""
    if state == "fail" or (state != "pass" and required):
        codes = [f["code"] for f in layer["findings"] if f["severity"] == "error"] or ["GS007"]
        inner = f"<failure type={_quoted(codes[0])} message={_quoted(text)}/>"
    elif state != "pass":
        inner = f"<skipped message={_quoted(text)}/>"
    elif told:
        inner = f"<system-out>{_quoted(told)[1:-1]}</system-out>"
    names = f'classname="gpu-smoke.{report["mode"]}" name={_quoted(layer["title"])} time="{layer["seconds"]}"'
    return f"<testcase {names}>{inner}</testcase>"


def _quoted(text: str) -> str:
    return quoteattr(xml_safe(text))
