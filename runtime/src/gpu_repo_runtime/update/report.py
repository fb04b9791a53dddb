"""What an update prints: for a person, or as JSON for a program."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .merge import Update

ORDER = ("updated", "merged", "renamed", "added", "removed", "opted out", "conflict")


def next_steps(update: Update) -> str:
    """Return what the owner runs after an update."""
    steps = ["resolve each conflict and `git add` the file"] if update.conflicts else []
    steps += ['do what is listed under "To do"'] if update.to_do else []
    return "next: " + ", then ".join([*steps, "scripts/setup && scripts/test && git commit"])


def as_text(update: Update, link: str, dry_run: bool) -> str:
    """Return what a person reads; the last line is the next command."""
    lines = [f"{update.old} -> {update.new}" + (" (dry run: nothing is changed)" if dry_run else "")]
    for title, entries in (("You have to act", update.act), ("To do", update.to_do), ("Notes", update.notes)):
        lines += ["", f"{title}:", *(f"  - {entry}" for entry in entries)] if entries else []
    lines.append("")
    for one in sorted(update.files, key=lambda one: (ORDER.index(one.kind), one.path)):
        before = f" (was {one.before})" if one.before else ""
        lines.append(f"{one.kind:<10} {one.path}{before}{f': {one.note}' if one.note else ''}")
    return "\n".join([*lines, "", f"All changes: {link}", *([] if dry_run else [next_steps(update)])])


def as_data(update: Update, code: int, dry_run: bool) -> dict[str, Any]:
    """Return the same for a program."""
    data = asdict(update)
    return {"from": data.pop("old"), "to": data.pop("new"), "code": code, "dry_run": dry_run, **data}
