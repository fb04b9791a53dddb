"""An adoption in words for people, and as JSON for programs."""

from __future__ import annotations

import json
from collections import Counter

from adoption.adopting import Adoption
from adoption.texts import masked, masked_all

FIRST = ("merged", "beside", "taken", "moved", "kept")


def told(done: Adoption, dry_run: bool) -> str:
    """Return what was found, planned and done."""
    return masked(_told(done, dry_run))


def _told(done: Adoption, dry_run: bool) -> str:
    lines = [f"{done.repository}, as the template {done.version} sees it:", ""]
    width = max(map(len, done.findings.answers))
    lines += [f"  {name:{width}}  {_plain(a.value)}  ({a.reason})" for name, a in done.findings.answers.items()]
    lines += ["", *(f"  {name:{width}}  {text}" for name, text in done.findings.facts.items()), ""]
    lines += [
        f"  {entry.kind:7} {entry.path}  ({entry.how})"
        for kind in FIRST
        for entry in done.entries
        if entry.kind == kind
    ]
    counts = Counter(entry.path.split("/")[0] for entry in done.entries if entry.kind == "new")
    folders = [f"{name} ({count} files)" if count > 1 else name for name, count in sorted(counts.items())]
    lines += [f"  new     {', '.join(folders)}"]
    if notes := [*done.findings.warnings, *done.notes]:
        lines += ["", "To know:", *(f"  - {note}" for note in notes)]
    if done.open:
        lines += ["", "To do:", *(f"  - {text}" for text in done.open)]
    lines += [""]
    if dry_run:
        return "\n".join([*lines, 'Nothing was written. An answer is changed with DATA="question=answer".'])
    lines += [f"The branch {done.branch} has it in one commit; your checkout is as it was. Go on with:", ""]
    lines += [
        f"  cd {done.repository} && git switch {done.branch}",
        "  scripts/setup",
        "  scripts/test && scripts/lint",
    ]
    return "\n".join(lines)


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def as_json(done: Adoption, dry_run: bool) -> str:
    """Return the same for a program."""
    found = {
        "repository": str(done.repository),
        "branch": done.branch,
        "commit": None if dry_run else done.commit,
        "template": done.version,
        "image": done.image,
        "answers": {name: {"answer": a.value, "reason": a.reason} for name, a in done.findings.answers.items()},
        "found": done.findings.facts,
        "files": [{"path": e.path, "kind": e.kind, "how": e.how} for e in sorted(done.entries, key=lambda e: e.path)],
        "to_know": [*done.findings.warnings, *done.notes],
        "to_do": done.open,
    }
    return json.dumps(masked_all(found), indent=2, ensure_ascii=False)
