"""Texts of the finding codes and of the libraries' numbers, for ``--explain`` and for the documentation."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections import Counter

from . import numbers
from .findings import Code, Lines, catalogue
from .findings import text as data

# What stands for a field that a report fills in; any other is "the reported" and its name.
WORDS = {"full": "", "to_driver": "", "runtime": "of the runtime's version", "want": "N", "have": "fewer",
         "most": "all", "gpu": "the reported GPU", "problem": "is wrong", "listed": "see `nvidia-smi -L`",
         "older": "use an image of an older CUDA"}  # fmt: skip
MORE = "`gpu-smoke --explain GSnnn` says more"
# The kernel log's line, then a number after its source: `CUDA error 209`, `exited with code 137`, `error 35`.
XID = re.compile(r"xid\s*\([^)]*\):\s*(\d+)")
NUMBER = re.compile(r"\b(cuda|nvml|nccl|cudnn|cublas|exit)?\w*\W*(?:with )?(?:error|code|status|failure)\W+(\d+)\b")
WORD = re.compile(r"[a-z]\w{2,}")
NEAREST, RARE = 5, 12


def explain(asked: str, names: list[str]) -> str:
    """Return what a code of ours, a layer, a number or name of a library, or a pasted message means.

    The fixes are those for a platform's ``names``, and for Kubernetes. ``all`` gives our codes as Markdown. A message
    that nothing matches gets the findings with the most of its words. Raises KeyError where there are none.
    """
    if asked.lower() == "all":
        return markdown()
    known, code = catalogue(), _of_message(" ".join(asked.lower().split()))
    if found := [known[one] for one in code.upper().split() if one in known]:
        return _likeliest(found, names)
    return _layer(code) or _numbers(code, names) or _nearest(asked)


def _of_message(message: str) -> str:
    """Return what to explain for a message in lower case: a code, a number with its source, or the message itself."""
    if xid := XID.search(message):
        return f"xid:{xid[1]}"
    names = {name.lower() for rows in numbers.tables().values() for entry in rows.values() for name in entry.names}
    if named := next((word for word in re.findall(r"\w+", message) if word in names), ""):
        return named
    for words, code in tomllib.loads(data("messages")).items():
        if words in f" {message} ":
            return str(code)
    number = NUMBER.search(message)
    return ":".join(filter(None, number.groups())) if number else message


def _nearest(asked: str) -> str:
    """List the findings whose title and symptom have the most words of a message, rare words first."""
    texts = {code: {*WORD.findall(f"{one.title} {one.symptom}".lower())} for code, one in catalogue().items()}
    often = Counter(word for words in texts.values() for word in words)
    rare = {word for word in WORD.findall(asked.lower()) if 0 < often[word] <= RARE}
    score = {code: sum(1 / often[word] for word in words & rare) for code, words in texts.items()}
    best = sorted((code for code in score if score[code]), key=lambda code: -score[code])[:NEAREST]
    if not best:
        raise KeyError(asked)
    return "\n".join([f"No finding has exactly this message. The nearest ({MORE}):", *map(_line, best), ""])


def _line(code: str) -> str:
    return f"  {code} {catalogue()[code].title}"


def _likeliest(found: list[Code], names: list[str]) -> str:
    """Explain the first of some findings, and list the others."""
    others = [f"Other causes ({MORE}):", *(_line(one.id) for one in found[1:]), ""] if found[1:] else []
    return "\n".join([_finding(found[0], names), *others])


def _layer(name: str) -> str:
    """Return the titles of what can be found in a layer, "" when there is no layer of that name."""
    from .layers.toolkit import LIBRARIES
    from .spec import all_layers

    wanted = {name, "any"} | ({"toolkit"} if name in {library.family for library in LIBRARIES} | {"copies"} else set())
    if name not in {spec.name for spec in all_layers()}:
        return ""
    found = [entry for entry in catalogue().values() if entry.layer in wanted]
    return "\n".join([f"layer {name}: what can be found there ({MORE}):", *(_line(entry.id) for entry in found), ""])


def _numbers(asked: str, names: list[str]) -> str:
    """Explain a number or name of a library with the findings that it can lead to; "" for one that nobody knows."""
    parts = []
    for library, entry in numbers.find(asked):
        means = entry.means or "see the library's own documentation"
        lines = textwrap.wrap(f"means: {means}", 78, initial_indent="  ", subsequent_indent="    ")
        parts.append("\n".join([f"{library} {entry.number}: {', '.join(entry.names)}", *lines, ""]))
        parts += [_likeliest([catalogue()[code] for code in entry.findings], names)] if entry.findings else []
    if not parts and ":" in asked:
        raise KeyError(asked)
    return "\n".join(parts)


def _finding(entry: Code, names: list[str]) -> str:
    rows = [("symptom", entry.symptom), ("cause", entry.cause), ("detected by", entry.detected_by)]
    for label, of in (("fix", entry.fix_for), ("check", entry.tell_apart_for)):
        here, there = of(names), of(["kubernetes", "container"])
        rows += [(label, here), (f"{label} (kubernetes)", there if there != here else "")]
    lines = [f"{entry.id} {entry.title} (layer {entry.layer}, {entry.severity})"]
    for label, text in [*rows, ("source", entry.source)]:
        whole = f"{label}: {plain(text.replace('{action}', entry.action))}" if text else ""
        lines += textwrap.wrap(whole, 78, break_on_hyphens=False, initial_indent="  ", subsequent_indent="    ")
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
