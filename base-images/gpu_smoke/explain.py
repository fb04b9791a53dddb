"""Texts of the finding codes and of the libraries' numbers, for ``--explain`` and for the documentation."""

from __future__ import annotations

import re
import textwrap
import tomllib

from . import numbers
from .findings import Code, Lines, catalogue
from .findings import text as data

# What stands for a field that a report fills in; any other is "the reported" and its name.
WORDS = {"full": "", "to_driver": "", "runtime": "of the runtime's version", "driver_major": "of the driver's version",
         "minimum": "of the needed number", "want": "N", "have": "fewer", "most": "all", "gpu": "the reported GPU",
         "problem": "does not exist or is named twice", "listed": "see `nvidia-smi -L`"}  # fmt: skip


def explain(code: str) -> str:
    """Return what a code of ours, a layer, a number or name of a library, or a pasted message means.

    ``all`` gives our codes as Markdown. Raises KeyError for what nobody knows.
    """
    if code.lower() == "all":
        return markdown()
    code = _of_message(code)
    if found := [_finding(catalogue()[one]) for one in code.upper().split() if one in catalogue()]:
        return "\n".join(found)
    return _layer(code.lower()) or _numbers(code)


def _of_message(message: str) -> str:
    """Return what to explain for a message of a library or a line of the kernel log, else the message itself."""
    if xid := re.search(r"Xid\s*\([^)]*\):\s*(\d+)", message, re.IGNORECASE):
        return f"xid:{xid[1]}"
    told = " ".join(message.lower().split())
    return next((code for words, code in tomllib.loads(data("messages")).items() if words in told), message)


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


def _numbers(asked: str) -> str:
    """Explain a number or name of a library with every finding that it can lead to. Raises KeyError."""
    found = numbers.find(asked)
    if not found:
        raise KeyError(asked)
    known, parts = catalogue(), []
    for library, entry in found:
        means = entry.means or "see the library's own documentation"
        findings = [known[code] for code in entry.findings]
        lines = textwrap.wrap(f"means: {means}", 78, initial_indent="  ", subsequent_indent="    ")
        if len(findings) > 1:
            lines.append("  possible causes, the likeliest first; gpu-smoke distinguishes them on the machine:")
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
            f"{label}: {plain(text)}", 78, break_on_hyphens=False, initial_indent="  ", subsequent_indent="    "
        )
    return "\n".join(lines) + "\n"


def _shown(lines: Lines, action: str = "") -> list[tuple[str, str]]:
    return [(name, text.replace("{action}", action)) for name, text in sorted(lines.items())]


def plain(line: str) -> str:
    """Return a line without braces: what a report fills in is `<folder>` in a command, else words."""
    parts = re.split(r"(`[^`]*`)", line)
    field = re.compile(r"{(\w+)(?:!r)?}")
    parts[1::2] = [field.sub(r"<\1>", part) for part in parts[1::2]]
    parts[::2] = [field.sub(lambda found: WORDS.get(found[1], f"the reported {found[1]}"), part) for part in parts[::2]]
    return "".join(parts)


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
            + "".join(f"\n- To tell apart ({name}): {text}" for name, text in _shown(entry.tell_apart))
            + f"\n- Source: {entry.source}\n"
        )
    return "\n".join(map(plain, "\n".join(parts).split("\n")))
