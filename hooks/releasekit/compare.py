"""Compares the child that one answer set gets from the last release with the one it gets now."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpu_repo_runtime.update.git import Git
from gpu_repo_runtime.update.render import ANSWERS, owner_of, owners_in
from packaging.version import Version

from releasekit.files import check_child
from releasekit.findings import Entry, Finding, gone
from releasekit.template import Answers, Template, TemplateError, answers_of, files_of, name_of, render, start

WHEEL = re.compile(r"wheels/[\w.+-]+\.whl")


def compare_child(old: Template, new: Template, wanted: Answers, place: Path) -> tuple[str, list[Finding], str]:
    """Render a child of the last release, and the new one with the answers that it records, as an update does.

    Return the name of the answer set, what the new version would take away, and for the defaults how the files differ.
    """
    before, after = place / "old", place / "new"
    answers = start(old, wanted, before)
    image = image_of(before)
    try:
        renew(before, new.folder, after)
    except TemplateError as error:
        entries = entries_for(error.question, answers.get(error.question))
        found = [gone(f"children cannot update: {error}", *entries, ("image", image))]
    else:
        found = [*check_answers(answers, answers_of(after)), *check_files(before, after)]
        if image_of(after) != image:
            found.append(gone(f"children change from the image {image} to {image_of(after)}", ("image", image)))
        least, lock = new.settings.get("min_copier_version"), before / "scripts" / "tools" / "copier.lock"
        has = re.search(r"(?m)^copier==([^\s;\\]+)", lock.read_text(encoding="utf-8")) if lock.is_file() else None
        if least and has and Version(str(least)) > Version(has[1]):
            found.append(Finding(f"children cannot update: they have Copier {has[1]}, the template needs {least}"))
    diff = ""
    if [*wanted] == [*old.choices][:1]:
        command = ("diff", "--no-index", "--no-renames", "--ignore-matching-lines=^_src_path:", "old", "new")
        diff = Git(place).run(*command).stdout.decode(errors="replace")
        found += check_child(after)
    return name_of(answers, old), found, diff


def renew(child: Path, template: Path, folder: Path) -> None:
    """Render what a new child with the recorded answers of `child` gets. Raises TemplateError."""
    folder.mkdir(parents=True)
    if (child / ANSWERS).exists():
        shutil.copyfile(child / ANSWERS, folder / ANSWERS)
    render(template, {}, folder)


def entries_for(name: str, value: Any) -> list[Entry]:
    """Return the entries that permit that an answer is no longer accepted."""
    values = value if isinstance(value, list) else [value]
    return [*(("choice", f"{name}={one}") for one in values), ("question", name)]


def check_answers(before: Answers, after: Answers) -> Iterator[Finding]:
    """Find recorded answers that are lost or changed."""
    for name, value in before.items():
        if name not in after:
            yield gone(f"the answer {name} is no longer recorded", ("question", name))
        elif after[name] != value:
            yield gone(f"the answer {name}={value} becomes {after[name]}", *entries_for(name, value))


def check_files(old: Path, new: Path) -> Iterator[Finding]:
    """Find files that vanish, change their owner, have none or lose their executable bit, and locks without a wheel."""
    before, after, there = owners_in(old), owners_in(new), files_of(new)
    package = f"src/{answers_of(new).get('package_name')}/"
    for path in sorted(files_of(old)):
        owners = (owner_of(path, before), owner_of(path, after))
        if path not in there:
            if not path.endswith(".whl"):  # another version of it came
                yield gone(f"{path} is gone", ("file", path.replace(package, "src/{package}/")))
        elif owners == ("seed", "managed"):
            yield Finding(f"{path} was the owner's, and updates would change it now")
        elif owners == ("managed", "seed"):
            yield gone(f"{path} was managed and is a seed now: its fixes would no longer arrive", ("file", path))
        elif os.access(old / path, os.X_OK) and not os.access(new / path, os.X_OK):
            yield Finding(f"{path} is no longer executable: git update-index --chmod=+x restores it")
    for path in sorted(there):
        if (lists := sum(spec.match_file(path) for spec in after.values())) != 1:
            yield Finding(f"{path} is on {'both lists' if lists else 'neither list'} of templates/ownership.yml")
        wheels = set(WHEEL.findall((new / path).read_text(encoding="utf-8"))) if path.endswith(".lock") else set()
        for wheel in sorted(wheels - there):
            yield Finding(f"{path} names {wheel}, which is not there: make wheel, then make locks")


def image_of(child: Path) -> str:
    """Return the name of the image in a rendered Dockerfile, "" where there is none."""
    place = child / "Dockerfile"
    text = place.read_text(encoding="utf-8") if place.exists() else ""
    found = re.search(r"(?m)^(?:ARG BASE_IMAGE=|FROM )(?:\S*/)?([\w.-]+)", text)
    return found[1] if found else ""
