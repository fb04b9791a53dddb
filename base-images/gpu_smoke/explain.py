"""Texts of the finding codes and of the libraries' numbers, for ``--explain`` and for the documentation."""

from __future__ import annotations

import textwrap

from . import numbers
from .findings import Code, Lines, catalogue


def explain(code: str) -> str:
    """Return what a code of ours, a layer, or a number or name of a library means; ``all`` gives our codes as Markdown.

    Raises KeyError for what nobody knows.
    """
    if code.lower() == "all":
        return markdown()
    entry = catalogue().get(code.upper())
    if entry:
        return _finding(entry)
    return _layer(code.lower()) or _numbers(code)


def _layer(name: str) -> str:
    """Return the titles of what can be found in a layer, "" when there is no layer of that name."""
    from .layers.toolkit import LIBRARIES
    from .spec import all_layers

    wanted = {name, "any"} | ({"toolkit"} if name in {library.family for library in LIBRARIES} | {"copies"} else set())
    if name not in {spec.name for spec in all_layers()}:
        return ""
    found = [entry for entry in catalogue().values() if entry.layer in wanted]
    lines = [f"{entry.id} {entry.title}" for entry in found]
    return f"layer {name}: what can be found there; `gpu-smoke --explain GSnnn` says more\n" + "\n".join(lines) + "\n"


def _numbers(text: str) -> str:
    """Explain a number or name of a library with every finding that it can lead to. Raises KeyError."""
    found = numbers.find(text)
    if not found:
        raise KeyError(text)
    known, parts = catalogue(), []
    for library, entry in found:
        means = entry.means or "see the library's own documentation"
        findings = [known[code] for code in entry.findings]
        lines = textwrap.wrap(f"means: {means}", 78, initial_indent="  ", subsequent_indent="    ")
        if len(findings) > 1:
            lines.append("  possible causes, the likeliest first; gpu-smoke tells them apart on the machine:")
        head = f"{library} {entry.number}: {', '.join(entry.names)}"
        parts.append("\n".join([head, *lines, "", *(_finding(one) for one in findings)]).rstrip() + "\n")
    return "\n".join(parts)


def _finding(entry: Code) -> str:
    rows = [("symptom", entry.symptom), ("cause", entry.cause), ("detected by", entry.detected_by)]
    for label, platform_lines in (("fix", entry.fix), ("tell apart", entry.tell_apart)):
        for name, text in _shown(platform_lines, entry.action):
            rows.append((f"{label} ({name})" if name != "anywhere" else label, text))
    lines = [f"{entry.id} {entry.title} (layer {entry.layer}, {entry.severity})"]
    for label, text in [*rows, ("source", entry.source)]:
        lines += textwrap.wrap(
            f"{label}: {text}", 78, break_on_hyphens=False, initial_indent="  ", subsequent_indent="    "
        )
    return "\n".join(lines) + "\n"


def _shown(lines: Lines, action: str = "") -> list[tuple[str, str]]:
    """Return lines by platform; a name in braces stands for what a report fills in."""
    found = []
    for name, text in sorted(lines.items()):
        found.append((name, text.replace("{full}", "").replace("!r}", "}").replace("{action}", action)))
    return found


def markdown() -> str:
    """Return the catalogue as Markdown sections, one per code."""
    parts = []
    for entry in catalogue().values():
        fixes = [f"    - {name}: {text}" for name, text in _shown(entry.fix, entry.action)]
        parts.append(
            f"### {entry.id}: {entry.title}\n\n"
            f"Layer `{entry.layer}`, {entry.severity}.\n\n"
            f"- Symptom: {entry.symptom}\n- Cause: {entry.cause}\n- Detection: {entry.detected_by}\n- Fix:\n"
            + "\n".join(fixes)
            + "".join(f"\n- To tell apart: {text}" for _, text in _shown(entry.tell_apart))
            + f"\n- Source: {entry.source}\n"
        )
    return "\n".join(parts)
