"""Texts of the finding codes, for ``--explain`` and for docs/gpu-smoke.md."""

from __future__ import annotations

import textwrap

from .codes import Code, Fix, catalogue


def explain(code: str) -> str:
    """Return what a code means, as text; ``all`` gives every code as Markdown. Raises KeyError for an unknown code."""
    if code.lower() == "all":
        return markdown()
    entry = catalogue()[code.upper()]
    rows = [("symptom", entry.symptom), ("cause", entry.cause), ("detected by", entry.detect)]
    rows += [(f"fix ({name})" if name != "*" else "fix", text) for name, text in _fixes(entry)]
    lines = [f"{entry.id} {entry.title} (layer {entry.layer}, {entry.severity})"]
    rows += [(f"tell apart ({name})" if name != "*" else "tell apart", text) for name, text in _lines_of(entry.apart)]
    for label, text in [*rows, ("source", entry.source)]:
        lines += textwrap.wrap(
            f"{label}: {text}", 78, break_on_hyphens=False, initial_indent="  ", subsequent_indent="    "
        )
    return "\n".join(lines) + "\n"


def _fixes(entry: Code) -> list[tuple[str, str]]:
    """Return the fix lines by platform; a name in braces stands for what a report fills in."""
    return _lines_of(entry.fix)


def _lines_of(lines: Fix) -> list[tuple[str, str]]:
    if not lines:
        return []
    fixes = {"*": lines} if isinstance(lines, str) else lines
    return [(name, text.replace("{full}", "").replace("!r}", "}")) for name, text in sorted(fixes.items())]


def markdown() -> str:
    """Return the catalogue as Markdown sections, one per code."""
    parts = []
    for entry in catalogue().values():
        fixes = [f"    - {'anywhere' if name == '*' else name}: {text}" for name, text in _fixes(entry)]
        parts.append(
            f"### {entry.id}: {entry.title}\n\n"
            f"Layer `{entry.layer}`, {entry.severity}.\n\n"
            f"- Symptom: {entry.symptom}\n- Cause: {entry.cause}\n- Detection: {entry.detect}\n- Fix:\n"
            + "\n".join(fixes)
            + "".join(f"\n- To tell apart: {text}" for _, text in _lines_of(entry.apart))
            + f"\n- Source: {entry.source}\n"
        )
    return "\n".join(parts)
