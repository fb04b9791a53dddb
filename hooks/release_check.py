"""Compare the last release with the work tree as children will see it, and refuse what would hurt them.

Every distinct answer set of the last release is rendered from both, and edited children of each release of the last
two minor versions are really updated. Refused: a file, question, choice or image that is gone and not listed in
templates/retired.yml for this version; an answer that was taken and no longer is, or is no longer kept; an edit that
an update loses, a seed that it changes, a fix that does not arrive; a lost executable bit, a link, conflict markers;
tasks, migrations, Jinja extensions and _skip_if_exists; a file on no list; a version that is not the next. The
rendered difference is printed for the reviewer.

Exit codes: 0 good, 1 refused (every reason is named).
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import runtime_source  # noqa: F401

# isort: split
import yaml
from fleetkit.speed import compile_templates_once, read_yaml_fast
from gpu_repo_runtime.update.answers import ANSWERS
from gpu_repo_runtime.update.outcome import files_under
from gpu_repo_runtime.update.ownership import owners_in
from packaging.version import Version
from releasekit import updates
from releasekit.questions import (
    Answers,
    answer_sets,
    choices,
    is_an_answer_refused,
    name_of,
    narrowed,
    questions,
    refusal,
    settings_of,
)
from releasekit.rendered import copier_in, faults
from releasekit.trees import difference, export, tree_of, work_tree
from releases import HistoryError, next_version, order, released

ROOT = Path(__file__).resolve().parent.parent
FORBIDDEN = {
    "_tasks": "children would need --trust",
    "_migrations": "children would need --trust",
    "_jinja_extensions": "children would need --trust",
    "_skip_if_exists": "fixes of those files would never arrive; what is the owner's is a seed",
}
KINDS = ("file", "question", "choice", "image", "validator", "type")


def load(template: Path, name: str) -> Any:
    """Return a YAML file of the template, or nothing where there is none."""
    place = template / name
    return yaml.safe_load(place.read_text(encoding="utf-8")) if place.exists() else None


def image_of(folder: Path) -> set[str]:
    """Return the words of a rendered Dockerfile, among them its base image."""
    place = folder / "Dockerfile"
    return set(re.findall(r"[a-z0-9-]+", place.read_text(encoding="utf-8"))) if place.exists() else set()


def new_wheel(path: str, files: set[str]) -> bool:
    """Tell whether a wheel is gone because another version of it came."""
    name = path.split("-")[0]
    return path.endswith(".whl") and any(other.endswith(".whl") and other.split("-")[0] == name for other in files)


class Check:
    """The comparison of two templates; `refused` collects the reasons."""

    def __init__(self, old: Path, new: Path, old_version: str) -> None:
        self.old, self.new, self.old_version = old, new, old_version
        self.settings = settings_of(new)
        self.refused: list[str] = []
        self.impossible: dict[str, list[str]] = {}
        self.entries = load(new, "templates/retired.yml") or []
        self.retired = self.retired_since(old_version)

    def retired_since(self, version: str) -> set[tuple[str, str]]:
        """Return kind and name of what was taken away after `version`."""
        return {
            (str(entry.get("kind")), str(entry.get("name")))
            for entry in self.entries
            if order(str(entry.get("version") or "0.0.0")) > order(version)
        }

    def refuse(self, reason: str) -> None:
        """Remember a reason, once."""
        self.refused += [reason] if reason not in self.refused else []

    def gone(self, kind: str, name: str, what: str) -> None:
        """Refuse what is gone unless it is listed as retired by this version."""
        if (kind, name) not in self.retired:
            self.refuse(f"{what} is gone: keep it, or list it in templates/retired.yml (kind {kind}, name {name})")

    def check_settings(self) -> None:
        """Refuse what needs trust or keeps fixes away, links, and questions that children can no longer answer."""
        for name, why in FORBIDDEN.items():
            if self.settings.get(name):
                self.refuse(f"copier.yml has {name}: {why}")
        before, after = (of.get("_envops") or {} for of in (settings_of(self.old), self.settings))
        if before.get("undefined") not in (None, after.get("undefined")):
            self.refuse(
                f"copier.yml: undefined is no longer {before['undefined']}: a wrong name would be told by nothing"
            )
        folder = self.new / str(self.settings.get("_subdirectory", "")).partition("{")[0]
        for path in sorted(folder.rglob("*")):
            if path.is_symlink():
                self.refuse(f"{path.relative_to(self.new)} is a link: not every system can check it out")
        before, after = questions(self.old), questions(self.new)
        for name, question in before.items():
            if name not in after:
                self.gone("question", name, f"the question {name}")
            else:
                self.check_question(name, question, after[name])
        for name in after.keys() - before.keys():
            if "default" not in after[name] and after[name].get("when", True) is True:
                self.refuse(f"the question {name} is new and has no default: children cannot update without an answer")

    def check_question(self, name: str, before: Answers, after: Answers) -> None:
        """Refuse what makes an answer that children have recorded impossible, or lets it be forgotten."""
        for value in choices(before):
            if value not in choices(after):
                self.gone("choice", f"{name}={value}", f"the choice {value} of {name}")
        for key, usual in (("type", None), ("multiselect", False)):
            old, new = before.get(key, usual), after.get(key, usual)
            if old != new and ("type", name) not in self.retired:
                self.refuse(f"the question {name} has {key} {new} instead of {old}: recorded answers do not fit")
        if after.get("secret") and not before.get("secret"):
            self.refuse(f"the question {name} is secret now: its answers are no longer recorded")

    def check_validators(self) -> None:
        """Refuse a free text that was an answer and is none any more."""
        for name, text, why in narrowed(self.old, self.new):
            if ("validator", name) not in self.retired:
                self.refuse(
                    f"the question {name} took {text!r} and refuses it now ({why}): keep its validator as wide, or "
                    f"list it in templates/retired.yml (kind validator, name {name})"
                )

    def check_images(self) -> None:
        """Refuse images that are gone or newly retired without an entry."""
        rows = [
            {row["name"]: row for row in load(t, "base-images/catalog.yml")["images"]} for t in (self.old, self.new)
        ]
        for name, row in rows[0].items():
            state = rows[1][name]["state"] if name in rows[1] else "gone"
            if state in ("gone", "retired") and row["state"] != "retired":
                self.gone("image", name, f"the image {name}")

    def check_entries(self) -> None:
        """Refuse retirement entries that are not whole, or of a version other than the one that is to come."""
        known = [{**entry, "reason": ""} for entry in load(self.old, "templates/retired.yml") or []]
        text = (self.new / "VERSION").read_text(encoding="utf-8").strip().partition(".dev")[0]
        versions = {order(text)} if text != self.old_version else self.following()
        for entry in self.entries:
            for key in ("kind", "name", "version", "reason"):
                if not entry.get(key):
                    self.refuse(f"templates/retired.yml: {entry} lacks {key}")
            if entry.get("kind") not in KINDS:
                self.refuse(f"templates/retired.yml: {entry} has none of the kinds {', '.join(KINDS)}")
            if {**entry, "reason": ""} not in known and order(str(entry.get("version") or "0.0.0")) not in versions:
                self.refuse(
                    f"templates/retired.yml: {entry.get('kind')} {entry.get('name')} is of version "
                    f"{entry.get('version')}, and what comes after {self.old_version} is not"
                )

    def following(self) -> set[tuple[int, ...]]:
        """Return the versions that may follow the last one: the next patch, minor and major."""
        major, minor, patch = order(self.old_version)
        return {(major, minor, patch + 1), (major, minor + 1, 0), (major + 1, 0, 0)}

    def check_version(self) -> None:
        """Refuse a version that is not the next patch, minor or major after the last release."""
        text = (self.new / "VERSION").read_text(encoding="utf-8").strip()
        if text != self.old_version and order(text.partition(".dev")[0]) not in self.following():
            self.refused.append(f"VERSION is {text}, which does not follow {self.old_version}")
        changelog = self.new / "CHANGELOG.md"
        told = not changelog.exists() or f"## {text}" in changelog.read_text(encoding="utf-8")
        if text != self.old_version and ".dev" not in text and not told:
            self.refused.append(f"CHANGELOG.md has no section '## {text}'")

    def check_files(self, where: str, old: Path, new: Path) -> None:
        """Refuse files that vanish or change hands, in one rendered answer set."""
        before, after = owners_in(old), owners_in(new)
        answers = load(new, ANSWERS) or {}
        package = f"src/{answers.get('package_name')}/"
        for path in sorted(files_under(old) - files_under(new)):
            if not new_wheel(path, files_under(new)):
                self.gone("file", path.replace(package, "src/{package}/"), f"{path} ({where})")
        for path in sorted(files_under(new)):
            if after.of(path) == "managed" and before.of(path) == "seed":
                self.refuse(f"{path} ({where}) was the owner's and would be changed by updates")
            if after.of(path) == "seed" and before.of(path) == "managed" and ("file", path) not in self.retired:
                self.refuse(f"{path} ({where}) was managed and is a seed now: its fixes would no longer arrive")
            if (old / path).is_file() and os.access(old / path, os.X_OK) and not os.access(new / path, os.X_OK):
                self.refuse(f"{path} ({where}) can no longer be executed: git update-index --chmod=+x brings it back")

    def check_rendered(self, where: str, new: Path) -> None:
        """Refuse what no child should get, in one rendered answer set."""
        for path, fault in faults(new):
            self.refuse(f"{path} ({where}) {fault}")

    def check_copier(self, where: str, old: Path) -> None:
        """Refuse a version that needs a newer Copier than children of the last one have for their update."""
        least, there = self.settings.get("_min_copier_version"), copier_in(old)
        if least and there and Version(str(least)) > there:
            self.refuse(f"children with {where} cannot update: they have Copier {there}, and it needs {least}")

    def check_answers(self, where: str, old: Path, new: Path) -> None:
        """Refuse a version that no longer records an answer which the last one recorded."""
        before, after = (load(folder, ANSWERS) or {} for folder in (old, new))
        for name in before:
            if name not in after and not name.startswith("_") and ("question", name) not in self.retired:
                self.refuse(
                    f"the answer {name} is no longer kept ({where}): its `when` or `secret` changed, or the file"
                )

    def excused(self, answers: Answers, old: Path) -> bool:
        """Tell whether a set may be refused: its own choice or its own image is retired."""
        named = {("choice", f"{name}={value}") for name, value in answers.items()}
        return bool((named | {("image", word) for word in image_of(old)}) & self.retired)

    def possible(self, template: Path, version: str, answers: Answers, folder: Path) -> bool:
        """Render one answer set; refuse a template that fails for another reason than an answer."""
        where, reason = name_of(answers), refusal(template, answers, folder)
        if reason is None:
            return True
        if is_an_answer_refused(reason):
            self.impossible.setdefault(reason, []).append(where)
        else:
            self.refuse(f"{where} cannot be rendered from {version}: {reason}")
        return False

    def differences(self, folder: Path) -> Iterator[tuple[str, str]]:
        """Check each answer set of both versions; give name and rendered difference of those of the old one."""
        old_sets = answer_sets(self.old)
        for number, answers in enumerate(old_sets):
            where, old, new = name_of(answers), folder / f"{number}-old", folder / f"{number}-new"
            if not self.possible(self.old, self.old_version, answers, old):
                continue
            reason = refusal(self.new, answers, new)
            if reason is not None:
                if not self.excused(answers, old):
                    self.refuse(f"children with {where} cannot update: {reason}")
                continue
            self.check_files(where, old, new)
            self.check_answers(where, old, new)
            self.check_copier(where, old)
            self.check_rendered(where, new)
            yield where, difference(old, new)
        for number, answers in enumerate(answers for answers in answer_sets(self.new) if answers not in old_sets):
            new = folder / f"{number}-only-new"
            if self.possible(self.new, "the work tree", answers, new):
                self.check_rendered(name_of(answers), new)

    def check_updates(self, repository: Path, known: dict[str, str], tree: str, folder: Path) -> int:
        """Update edited children of the recent releases for real; return how many."""
        tag = f"v{next_version(repository)}"
        family = updates.make_family(repository, known, tree, tag, folder / "family")
        jobs = []
        for version in updates.recent(known):
            template = folder / f"release-{version}"
            export(repository, known[version], template)
            jobs += [(start, self.retired_since(version)) for start in updates.starts(template, version)]
        for start, wrong in updates.failures(family, tag, jobs, folder):
            for reason in wrong:
                self.refuse(f"the update of {start.where}: {reason}")
        return len(jobs)


def report(check: Check, folder: Path, quiet: bool) -> None:
    """Run every check and print what children will see, each difference once with the sets that it reaches."""
    check.check_settings()
    check.check_images()
    check.check_entries()
    check.check_validators()
    check.check_version()
    reached: dict[str, list[str]] = {}
    for where, text in check.differences(folder):
        reached.setdefault(text, []).append(where)
    for text, sets in reached.items():
        print(f"== {len(sets)} answer sets: {'; '.join(sets)}")
        print((text if not quiet else "") or "nothing changes\n" * (not text), end="")
    for reason, sets in check.impossible.items():
        print(f"== {len(sets)} answer sets are not possible: {'; '.join(sets)}: {reason}")


def main() -> int:
    """Check the work tree against the last release; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, default=ROOT, help=argparse.SUPPRESS)
    parser.add_argument("--quiet", action="store_true", help="name the answer sets, leave the differences out")
    options = parser.parse_args()
    try:
        known = released(options.repository)
        tree = work_tree(options.repository)
        # On the commit of a release itself, that release is what is checked, against the one before.
        known = {version: commit for version, commit in known.items() if tree_of(options.repository, commit) != tree}
    except HistoryError as error:
        print(f"release-check: {error}", file=sys.stderr)
        return 1
    if not known:
        print("release-check: no version is released yet, so no child can be hurt")
        return 0
    version, commit = list(known.items())[-1]
    with TemporaryDirectory() as folder:
        old, new = Path(folder, "old"), Path(folder, "new")
        export(options.repository, commit, old)
        export(options.repository, tree, new)
        check = Check(old, new, version)
        report(check, Path(folder), options.quiet)
        count = check.check_updates(options.repository, known, tree, Path(folder))
        print(f"== {count} edited children were updated from {', '.join(updates.recent(known))}")
    for reason in check.refused:
        print(f"release-check: refused: {reason}", file=sys.stderr)
    print(f"release-check: {'refused' if check.refused else 'good'}, compared with {version}", file=sys.stderr)
    return 1 if check.refused else 0


if __name__ == "__main__":
    compile_templates_once()
    read_yaml_fast()
    sys.exit(main())
