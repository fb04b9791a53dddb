"""Compares the child that one answer set gets from the last release with the one it gets now."""

from __future__ import annotations

import difflib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_repo_runtime.update.ownership import owners_in
from packaging.version import Version

from releasekit.files import check_child
from releasekit.findings import Entry, Finding, gone
from releasekit.template import Answers, Template, TemplateError, answers_of, files_of, image_states, name_of, render

FORBIDDEN = {
    "migrations": "children would need --trust",
    "skip_if_exists": "fixes of those files would never arrive",
}
ANSWERS = ".copier-answers.yml"
FIXED = ("answers_file", "templates_suffix")


@dataclass
class Compared:
    """What one answer set gives: its name, what was found, and how its files differ."""

    where: str
    findings: list[Finding] = field(default_factory=list)
    patches: dict[str, str] = field(default_factory=dict)


def check_settings(old: Template, new: Template) -> Iterator[Finding]:
    """Find settings and links that keep fixes away or change how children are read."""
    for name, why in FORBIDDEN.items():
        if new.settings.get(name):
            yield Finding(f"copier.yml has _{name}: {why}")
    for name in FIXED:
        if old.settings.get(name) != new.settings.get(name):
            yield Finding(f"copier.yml has another _{name}: children keep the one that they were made with")
    root = new.folder / str(new.settings.get("subdirectory", "")).partition("{")[0]
    for path in sorted(root.rglob("*")):
        if path.is_symlink():
            yield Finding(f"{path.relative_to(new.folder)} is a link: Windows cannot check it out")


def compare_child(old: Template, new: Template, answers: Answers, before: Path, after: Path) -> Compared:
    """Render the new version as an update does, with the answers that a child records; find what it would take away."""
    done = Compared(name_of(answers, old))
    images = words_of(before) & image_states(old.folder).keys()
    after.mkdir()
    if (before / ANSWERS).exists():
        shutil.copyfile(before / ANSWERS, after / ANSWERS)
    try:
        render(new.folder, {}, after)
    except TemplateError as error:
        done.findings.append(rejected(error, answers, new, images))
        return done
    done.findings += check_answers(answers, answers_of(after))
    done.findings += check_files(before, after)
    done.findings += check_images(images, words_of(after), image_states(new.folder))
    least, has = new.settings.get("min_copier_version"), copier_in(before)
    if least and has and Version(str(least)) > has:
        done.findings.append(Finding(f"children cannot update: they have Copier {has}, the template needs {least}"))
    done.findings += check_child(after, (*new.choices, *new.texts))
    done.patches = difference(before, after)
    return done


def rejected(error: TemplateError, answers: Answers, new: Template, images: set[str]) -> Finding:
    """Return the finding that the new version rejects the answers of a child."""
    reason, states = f"children cannot update: {error}", image_states(new.folder)
    if error.question not in answers:
        return Finding(reason)
    retired = [("image", one) for one in sorted(images) if states.get(one, "retired") == "retired"]
    return gone(reason, *retired, *entries_for(error.question, answers[error.question]))


def entries_for(name: str, value: Any) -> list[Entry]:
    """Return the entries that permit that an answer is no longer accepted."""
    values = value if isinstance(value, list) else [value]
    return [*(("choice", f"{name}={one}") for one in values), ("validator", name), ("type", name)]


def check_answers(before: Answers, after: Answers) -> Iterator[Finding]:
    """Find recorded answers that are lost or changed."""
    for name, value in before.items():
        if name not in after:
            yield gone(f"the answer {name} is no longer recorded", ("question", name))
        elif after[name] != value:
            yield gone(f"the answer {name}={value} becomes {after[name]}", *entries_for(name, value))


def check_images(images: set[str], after: set[str], states: dict[str, str]) -> Iterator[Finding]:
    """Find images of a child that are retired, or that it would leave for another without a new answer."""
    now = sorted(after & states.keys())
    for name in sorted(images):
        if states.get(name, "retired") == "retired":
            yield gone(f"the image {name} is retired", ("image", name))
        elif name not in after and now:
            yield gone(f"children change from the image {name} to {', '.join(now)}", ("image", name))


def check_files(old: Path, new: Path) -> Iterator[Finding]:
    """Find files that vanish, change their owner, or lose their executable bit."""
    before, after, there = owners_in(old), owners_in(new), files_of(new)
    package = f"src/{answers_of(new).get('package_name')}/"
    for path in sorted(files_of(old)):
        if path not in there:
            if not replaced_wheel(path, there):
                yield gone(f"{path} is gone", ("file", path.replace(package, "src/{package}/")))
            continue
        owners = (before.of(path), after.of(path))
        if owners == ("seed", "managed"):
            yield Finding(f"{path} was the owner's, and updates would change it now")
        if owners == ("managed", "seed"):
            yield gone(f"{path} was managed and is a seed now: its fixes would no longer arrive", ("file", path))
        if os.access(old / path, os.X_OK) and not os.access(new / path, os.X_OK):
            yield Finding(f"{path} is no longer executable: git update-index --chmod=+x restores it")


def replaced_wheel(path: str, there: set[str]) -> bool:
    """Return whether a wheel is gone because another version of it came."""
    return path.endswith(".whl") and any(o.endswith(".whl") and o.startswith(path.split("-")[0] + "-") for o in there)


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
        if b"\0" in before + after and before != after:
            patches[path] = f"Binary files a/{path} and b/{path} differ\n"
        elif before != after:
            first, second = (
                [line for line in text.decode(errors="replace").splitlines() if not line.startswith("_src_path:")]
                for text in (before, after)
            )
            if lines := list(difflib.unified_diff(first, second, f"a/{path}", f"b/{path}", lineterm="")):
                patches[path] = "\n".join([*lines, ""])
    return patches
