"""Compares the child that one answer set gets from the last release with the one it gets now."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from gpu_repo_runtime.update.ownership import owners_in
from packaging.version import Version

from releasekit.findings import Finding, gone
from releasekit.questions import image_states
from releasekit.template import Template, answers_of, files_of


def compare(old: Path, new: Path, old_template: Template, new_template: Template) -> Iterator[Finding]:
    """Find what an update from one rendered child to the other would take away."""
    yield from check_files(old, new)
    before, after = answers_of(old), answers_of(new)
    for name in before:
        if name not in after and not name.startswith("_"):
            yield Finding(f"the answer {name} is no longer kept: its `when` or `secret` changed", "question", name)
    least, has = new_template.settings.get("min_copier_version"), copier_in(old)
    if least and has and Version(str(least)) > has:
        yield Finding(f"children cannot update: they have Copier {has}, and the template needs {least}")
    now = sorted(words_of(new) & image_states(new_template.folder).keys())
    for name in sorted((words_of(old) & image_states(old_template.folder).keys()) - words_of(new)):
        if now:
            reason = f"children go from the image {name} to {', '.join(now)} unasked: keep {name} for these answers"
            yield Finding(f"{reason}, or list it in templates/retired.yml (kind image)", "image", name)


def check_files(old: Path, new: Path) -> Iterator[Finding]:
    """Find files that vanish, change their owner, or lose their executable bit or their contents."""
    before, after = owners_in(old), owners_in(new)
    there = files_of(new)
    for path in sorted(files_of(old) - there):
        if not replaced_wheel(path, there):
            yield gone("file", general(path, new), path)
    for path in sorted(files_of(old) & there):
        was, now = before.of(path), after.of(path)
        if (was, now) == ("seed", "managed"):
            yield Finding(f"{path} was the owner's, and updates would change it now")
        if (was, now) == ("managed", "seed"):
            yield Finding(f"{path} was managed and is a seed now: its fixes would no longer arrive", "file", path)
        if os.access(old / path, os.X_OK) and not os.access(new / path, os.X_OK):
            yield Finding(f"{path} is no longer executable: git update-index --chmod=+x brings it back")
        if re.fullmatch(r"requirements[^/]*\.lock", path) and pins(old / path) and not pins(new / path):
            yield Finding(f"{path} is a lock that contains nothing any more")


def general(path: str, child: Path) -> str:
    """Return a path with `{package}` for the name of the child's package, as templates/retired.yml writes it."""
    return path.replace(f"src/{answers_of(child).get('package_name')}/", "src/{package}/")


def replaced_wheel(path: str, there: set[str]) -> bool:
    """Return whether a wheel is gone because another version of it came."""
    name = path.split("-")[0]
    return path.endswith(".whl") and any(other.endswith(".whl") and other.split("-")[0] == name for other in there)


def pins(lock: Path) -> list[str]:
    """Return the names of the packages in a lock."""
    return re.findall(r"(?m)^[A-Za-z0-9][A-Za-z0-9._-]*", lock.read_text(encoding="utf-8"))


def words_of(child: Path) -> set[str]:
    """Return the words of a rendered Dockerfile, among them its base image."""
    place = child / "Dockerfile"
    return set(re.findall(r"[a-z0-9-]+", place.read_text(encoding="utf-8"))) if place.exists() else set()


def copier_in(child: Path) -> Version | None:
    """Return the Copier with which a child updates itself, None if its files do not name one."""
    lock = child / "scripts" / "tools" / "copier.lock"
    found = re.search(r"(?m)^copier==([^\s;\\]+)", lock.read_text(encoding="utf-8")) if lock.is_file() else None
    return Version(found[1]) if found else None


def difference(old: Path, new: Path) -> dict[str, str]:
    """Return the patch of each file that differs; a binary file has one line."""
    patches = {}
    for path in sorted(files_of(old) | files_of(new)):
        before, after = ((one / path).read_bytes() if (one / path).exists() else b"" for one in (old, new))
        if before == after:
            continue
        if b"\0" in before + after:
            patches[path] = f"Binary files a/{path} and b/{path} differ\n"
            continue
        lines = [[line for line in text.decode(errors="replace").splitlines() if not line.startswith("_src_path:")]
                 for text in (before, after)]  # fmt: skip
        if patch := "\n".join(difflib.unified_diff(lines[0], lines[1], f"a/{path}", f"b/{path}", lineterm="")):
            patches[path] = patch + "\n"
    return patches
