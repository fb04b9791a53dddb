"""Compares what each answer set gets from the last release with what it gets now."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from gpu_repo_runtime.update.answers import ANSWERS
from gpu_repo_runtime.update.outcome import files_under
from gpu_repo_runtime.update.ownership import owners_in
from packaging.version import Version

from releasekit import locks
from releasekit.check import Check, load
from releasekit.images import check_image_of, words_of
from releasekit.questions import Answers, answer_sets, is_an_answer_refused, name_of, questions, refusal
from releasekit.rendered import faults
from releasekit.trees import difference


def new_wheel(path: str, files: set[str]) -> bool:
    """Tell whether a wheel is gone because another version of it came."""
    name = path.split("-")[0]
    return path.endswith(".whl") and any(other.endswith(".whl") and other.split("-")[0] == name for other in files)


def check_files(check: Check, where: str, old: Path, new: Path) -> None:
    """Refuse files that vanish or change hands, in one rendered answer set."""
    before, after = owners_in(old), owners_in(new)
    answers = load(new, ANSWERS) or {}
    package = f"src/{answers.get('package_name')}/"
    for path in sorted(files_under(old) - files_under(new)):
        if not new_wheel(path, files_under(new)):
            check.gone("file", path.replace(package, "src/{package}/"), f"{path} ({where})")
    for path in sorted(files_under(new)):
        if after.of(path) == "managed" and before.of(path) == "seed":
            check.refuse(f"{path} ({where}) was the owner's and would be changed by updates")
        if after.of(path) == "seed" and before.of(path) == "managed" and not check.listed("file", path):
            check.refuse(f"{path} ({where}) was managed and is a seed now: its fixes would no longer arrive")
        if not (old / path).is_file():
            continue
        if os.access(old / path, os.X_OK) and not os.access(new / path, os.X_OK):
            check.refuse(f"{path} ({where}) can no longer be executed: git update-index --chmod=+x brings it back")
        check_text(check, f"{path} ({where})", (old / path).read_bytes(), (new / path).read_bytes())


def check_text(check: Check, name: str, old: bytes, new: bytes) -> None:
    """Refuse a file that lost its last line end, or a lock that lost all it held."""
    if new and b"\0" not in new and old.endswith(b"\n") and not new.endswith(b"\n"):
        check.refuse(f"{name} has no newline at its end any more")
    if locks.is_lock(name.partition(" ")[0]) and locks.pins(old.decode()) and not locks.pins(new.decode()):
        check.refuse(f"{name} is a lock that holds nothing any more")


def check_rendered(check: Check, where: str, new: Path) -> None:
    """Refuse what no child should get, in one rendered answer set."""
    for path, fault in faults(new, tuple(questions(check.new))):
        check.refuse(f"{path} ({where}) {fault}")


def check_copier(check: Check, where: str, old: Path) -> None:
    """Refuse a version that needs a newer Copier than children of the last one have for their update."""
    least, there = check.settings.get("_min_copier_version"), locks.copier_in(old)
    if least and there and Version(str(least)) > there:
        check.refuse(f"children with {where} cannot update: they have Copier {there}, and it needs {least}")


def check_answers(check: Check, where: str, old: Path, new: Path) -> None:
    """Refuse a version that no longer records an answer which the last one recorded."""
    before, after = (load(folder, ANSWERS) or {} for folder in (old, new))
    for name in before:
        if name not in after and not name.startswith("_") and ("question", name) not in check.retired:
            check.refuse(f"the answer {name} is no longer kept ({where}): its `when` or `secret` changed, or the file")


def excused(check: Check, answers: Answers, old: Path) -> bool:
    """Tell whether a set may be refused: its own choice or its own image is retired."""
    named = {("choice", f"{name}={value}") for name, value in answers.items()}
    return bool((named | {("image", word) for word in words_of(old)}) & check.retired)


def possible(check: Check, template: Path, version: str, answers: Answers, folder: Path) -> bool:
    """Render one answer set; refuse a template that fails for another reason than an answer."""
    where, reason = name_of(answers), refusal(template, answers, folder)
    if reason is None:
        return True
    if is_an_answer_refused(reason):
        check.impossible.setdefault(reason, []).append(where)
    else:
        check.refuse(f"{where} cannot be rendered from {version}: {reason}")
    return False


def differences(check: Check, folder: Path) -> Iterator[tuple[str, str]]:
    """Check each answer set of both versions; give name and rendered difference of those of the old one."""
    old_sets = answer_sets(check.old)
    for number, answers in enumerate(old_sets):
        where, old, new = name_of(answers), folder / f"{number}-old", folder / f"{number}-new"
        if not possible(check, check.old, check.old_version, answers, old):
            continue
        reason = refusal(check.new, answers, new)
        if reason is not None:
            if not excused(check, answers, old):
                check.refuse(f"children with {where} cannot update: {reason}")
            continue
        check_files(check, where, old, new)
        check_answers(check, where, old, new)
        check_copier(check, where, old)
        check_image_of(check, where, old, new)
        check_rendered(check, where, new)
        yield where, difference(old, new)
    for number, answers in enumerate(answers for answers in answer_sets(check.new) if answers not in old_sets):
        new = folder / f"{number}-only-new"
        if possible(check, check.new, "the work tree", answers, new):
            check_rendered(check, name_of(answers), new)
