"""What the template's changelog requires of the owner of a child."""

from __future__ import annotations

import re
from pathlib import Path

from .releases import number

ACT = re.compile(
    r"(?ms)^- \*\*You have to act\.\*\* (.*?)(?=\n- |\n\n|\Z)|^\*\*You have to act\*\*\n(.*?)(?=\n\*\*|\n\n|\Z)"
)
TYPES = ("service", "batch", "librar")  # how an entry says whom it concerns: "Live services and batch jobs: ..."
ABOUT = re.compile(r"(?i)(?:live )?(?:service|batch|librar)[^:]*:")


def concerns(entry: str, project_type: str) -> bool:
    """Return whether an entry is for a type: it begins with the name of that type, or with none."""
    subject, known = ABOUT.match(entry), [word for word in TYPES if project_type.startswith(word)]
    return not subject or not known or known[0] in subject[0].lower()


def to_act(template: Path, old: str, new: str, project_type: str = "") -> list[str]:
    """Return what the releases after `old` up to `new` require of owners of a type, one entry a line."""
    place, found = template / "CHANGELOG.md", []
    for section in re.split(r"(?m)^## ", place.read_text(encoding="utf-8"))[1:] if place.is_file() else []:
        name = section.split()[0].strip("[]")
        if number(old) < number(name) <= number(new):
            entries = [one for match in ACT.findall(section) for one in re.split(r"(?m)^- ", "".join(match))]
            entries = [" ".join(one.split()) for one in entries if one.strip()]
            found += [f"{name}: {one}" for one in entries if concerns(one, project_type)]
    return found


def link(source: str, new: str) -> str:
    """Return where the whole changelog of a release is."""
    found = re.match(r"(?:https?://|ssh://git@|git@)([^:/]+)[:/](.+?)(?:\.git)?/?$", source)
    if not found:
        return f"CHANGELOG.md of the template, {new}"
    return f"https://{found[1]}/{found[2]}/{'-/' if 'gitlab' in found[1] else ''}blob/{new}/CHANGELOG.md"
