"""The report as one self-contained HTML page: no script, no file beside it."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from .build import xml_safe
from .text import headline

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid #ddd; }
code { overflow-wrap: anywhere; font-size: .85rem; } pre { overflow: auto; background: #f5f5f5; padding: 1rem; }
.pass { background: #dff3e3; } .fail { background: #fadcd9; }
.blocked { background: #fdf0d5; } .skip { background: #eee; }
.card { border-left: .4rem solid #b3261e; padding: .5rem 1rem; background: #fdf3f2; } .fix { font-weight: 600; }
"""


def render(report: dict[str, Any]) -> str:
    """Return the page's text; everything that came from the machine is escaped."""
    title = _text(f"gpu-smoke: {headline(report)}")
    facts = _text(json.dumps(report["facts"], indent=1, sort_keys=True))
    rows = "\n".join(_row(layer) for layer in reversed(report["layers"]))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style></head>\n"
        f"<body><h1>{title}</h1>\n<p>{_text(_about(report))}</p>\n{_cause(report)}"
        f"<h2>The stack, top first</h2>\n<table><tr><th>Layer</th><th>State</th><th>What was found</th></tr>\n{rows}\n"
        f"</table>\n<details><summary>All facts</summary><pre>{facts}</pre></details>\n</body></html>\n"
    )


def _about(report: dict[str, Any]) -> str:
    return (
        f"{report['started']}, {report['mode']} mode, required: {report['require']}, "
        f"platform {report['platform']['kind']}, {report['seconds']:.1f} s, "
        f"exit code {report['exit_code']}, version {report['program']['version']}"
    )


def _cause(report: dict[str, Any]) -> str:
    cause = report["cause"]
    if not cause:
        return ""
    return (
        f'<div class="card"><p><strong>Cause: {cause["code"]} {_text(cause["title"])}</strong> '
        f"(layer {_text(cause['layer'])})</p><p>{_text(cause['evidence'])}</p>"
        f'<p class="fix">Fix: {_text(cause["fix"])}{_apart(cause)}</p></div>\n'
    )


def _apart(found: dict[str, Any]) -> str:
    return f"<br>To tell apart: {_text(found['apart'])}" if found.get("apart") else ""


def _row(layer: dict[str, Any]) -> str:
    summary = f"blocked by {layer['blocked_by']}" if layer["blocked_by"] else layer["summary"]
    told = "".join(
        f"<p>{f['code']} ({f['severity']}) {_text(f['title'])}. {_text(f['evidence'])}"
        f"<br>Fix: {_text(f['fix'])}{_apart(f)}</p>"
        for f in layer["findings"]
    )
    path = f"<br><code>{_text(layer['path'])}</code>" if layer["path"] else ""
    state = layer["state"]
    cells = f'<td>{_text(layer["title"])}</td><td class="{state}">{state}</td>'
    return f"<tr>{cells}<td>{_text(summary)}{path}{told}</td></tr>"


def _text(value: str) -> str:
    return escape(xml_safe(value))
