"""What an update tells: for a person, for a program, and why it could not be made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .git_calls import last_line, without_password
from .outcome import ORDER, Outcome


def told(versions: str, changes: str, outcomes: Sequence[Outcome], dry_run: bool) -> str:
    """Return what a person reads: versions, changelog, files, what is next."""
    lines = [versions + (" (dry run, nothing is changed)" if dry_run else "")]
    lines += ["", changes, ""] if changes else [""]
    for kind in ORDER:
        for outcome in (outcome for outcome in outcomes if outcome.kind == kind):
            lines.append(f"{kind:<10} {outcome.path}" + (f": {outcome.note}" if outcome.note else ""))
    return "\n".join(lines if dry_run else [*lines, "", next_steps(outcomes)])


def next_steps(outcomes: Sequence[Outcome]) -> str:
    """Return what the owner does after an update, in this order."""
    kinds = {outcome.kind for outcome in outcomes}
    steps = ["settle the conflict markers and `git add` the files"] if "conflict" in kinds else []
    steps += ["look at what was at risk"] if "at risk" in kinds else []
    moved = any(o.path == "constraints.txt" and o.kind in ("updated", "merged") for o in outcomes)
    steps += ["scripts/lock (the base image has other versions now)"] if moved else []
    return "next: " + ", ".join([*steps, "scripts/setup && scripts/test", "git commit"])


def as_json(old: str, new: str | None, code: int, dry_run: bool, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the same for a program."""
    files = [outcome.as_dict() for outcome in outcomes]
    return {"from": old, "to": new, "code": code, "dry_run": dry_run, "files": files}


def why(error: Exception, answers: Mapping[str, Any], tag: str) -> str:
    """Return one line that says why Copier stopped."""
    line = without_password(last_line(getattr(error, "stderr", None) or str(error)))
    missing = re.search(r'Question "(\w+)" is required', line)
    if not missing:
        return f"Copier cannot update to {tag}: {line}"
    name = missing[1]
    return (
        f"the answer {name}: {answers.get(name, 'none')} is not possible in {tag} any more; "
        f"read the changelog and give another one with --answer {name}=..."
    )
