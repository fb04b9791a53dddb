"""What an update prints: for a person, or as JSON for a program."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .merge import Update
from .releases import number

ORDER = ("updated", "merged", "renamed", "added", "removed", "opted out", "conflict")
ACT = re.compile(
    r"(?ms)^- \*\*You have to act\.\*\* (.*?)(?=\n- |\n\n|\Z)|^\*\*You have to act\*\*\n(.*?)(?=\n\*\*|\n\n|\Z)"
)


def to_act(template: Path, old: str, new: str) -> list[str]:
    """Return what the changelog of the releases after `old` up to `new` requires of owners, one entry a line."""
    place, found = template / "CHANGELOG.md", []
    for section in re.split(r"(?m)^## ", place.read_text(encoding="utf-8"))[1:] if place.is_file() else []:
        name = section.split()[0].strip("[]")
        if number(old) < number(name) <= number(new):
            entries = [one for match in ACT.findall(section) for one in re.split(r"(?m)^- ", "".join(match))]
            found += [f"{name}: {' '.join(one.split())}" for one in entries if one.strip()]
    return found


def changelog(source: str, new: str) -> str:
    """Return where the whole changelog of a release is."""
    found = re.match(r"(?:https?://|ssh://git@|git@)([^:/]+)[:/](.+?)(?:\.git)?/?$", source)
    if not found:
        return f"CHANGELOG.md of the template, {new}"
    return f"https://{found[1]}/{found[2]}/{'-/' if 'gitlab' in found[1] else ''}blob/{new}/CHANGELOG.md"


def next_steps(update: Update) -> str:
    """Return what the owner runs after an update."""
    steps = ["resolve each conflict and `git add` the file"] if update.conflicts else []
    steps += ['do what is listed under "To do"'] if update.to_do else []
    return "next: " + ", then ".join([*steps, "scripts/setup && scripts/test && git commit"])


def as_text(update: Update, act: list[str], link: str, dry_run: bool) -> str:
    """Return what a person reads; the last line is the next command."""
    lines = [f"{update.old} -> {update.new}" + (" (dry run: nothing is changed)" if dry_run else "")]
    for title, entries in (("You have to act", act), ("To do", update.to_do), ("Notes", update.notes)):
        lines += ["", f"{title}:", *(f"  - {entry}" for entry in entries)] if entries else []
    lines.append("")
    for one in sorted(update.files, key=lambda one: (ORDER.index(one.kind), one.path)):
        before = f" (was {one.before})" if one.before else ""
        lines.append(f"{one.kind:<10} {one.path}{before}{f': {one.note}' if one.note else ''}")
    return "\n".join([*lines, "", f"All changes: {link}", *([] if dry_run else [next_steps(update)])])


def as_data(update: Update, act: list[str], code: int, dry_run: bool) -> dict[str, Any]:
    """Return the same for a program."""
    return {
        "from": update.old,
        "to": update.new,
        "code": code,
        "dry_run": dry_run,
        "act": act,
        "to_do": update.to_do,
        "notes": update.notes,
        "files": [asdict(one) for one in update.files],
    }
