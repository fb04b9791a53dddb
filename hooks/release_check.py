"""Compare the last release with the work tree as children will see it, and refuse what would hurt them.

Every answer set of the last release is rendered from both. Refused: a file, question, choice or image that is gone
and not listed in templates/retired.yml; tasks, migrations and Jinja extensions; a file that was the owner's and would
be managed; a file on no list; a version that is not the next. The rendered difference is printed for the reviewer.

Exit codes: 0 good, 1 refused (every reason is named).
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from copier import run_copy
from copier.errors import CopierError
from releases import HistoryError, order, released
from update_outcome import files_under

ROOT = Path(__file__).resolve().parent.parent
FORBIDDEN = ("_tasks", "_migrations", "_jinja_extensions")
LISTS = ".copier-ownership.yml"
ANSWERS = ".copier-answers.yml"
Answers = dict[str, Any]


def load(template: Path, name: str) -> Any:
    """Return a YAML file of the template, or nothing where there is none."""
    place = template / name
    return yaml.safe_load(place.read_text(encoding="utf-8")) if place.exists() else None


def export(repository: Path, commit: str, folder: Path) -> None:
    """Write the files of one commit into `folder`."""
    packed = subprocess.run(["git", "archive", commit], cwd=repository, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


def work_tree(repository: Path) -> str:
    """Return the git tree of the files as they are, committed or not; the index stays as it is."""
    with TemporaryDirectory() as folder:
        environment = os.environ | {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        for step in (["read-tree", "HEAD"], ["add", "--all"], ["write-tree"]):
            done = subprocess.run(
                ["git", *step], cwd=repository, env=environment, check=True, capture_output=True, text=True
            )
    return done.stdout.strip()


def tree_of(repository: Path, commit: str) -> str:
    """Return the git tree of a commit."""
    command = ["git", "rev-parse", f"{commit}^{{tree}}"]
    return subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True).stdout.strip()


def choices(question: dict[str, Any]) -> list[Any]:
    """Return the values that a question offers; a yes-or-no question offers both."""
    if question.get("type") == "bool":
        return [True, False]
    offered = question.get("choices", [])
    values = list(offered.values()) if isinstance(offered, dict) else list(offered)
    return [value["value"] if isinstance(value, dict) else value for value in values]


def questions(template: Path) -> dict[str, dict[str, Any]]:
    """Return the questions that are asked."""
    settings = load(template, "copier.yml")
    return {
        name: text
        for name, text in settings.items()
        if not name.startswith("_") and isinstance(text, dict) and text.get("when") is not False
    }


def answer_sets(template: Path) -> list[Answers]:
    """Return every combination of choices, with a name for the project."""
    offered = {
        name: [[], choices(question)] if question.get("multiselect") else choices(question)
        for name, question in questions(template).items()
    }
    names = [name for name, values in offered.items() if values]
    return [
        {"project_name": "topic-finder"} | dict(zip(names, values, strict=True))
        for values in product(*(offered[name] for name in names))
    ]


def render(template: Path, answers: Answers, folder: Path) -> str | None:
    """Render one answer set; return the reason when the template refuses it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run_copy(str(template), folder, data=answers, defaults=True, quiet=True)
    except (ValueError, CopierError) as error:
        return str(error).splitlines()[0]
    return None


def text_of(folder: Path, path: str) -> list[str]:
    """Return the lines of one rendered file; the template's own place and version are left out."""
    data = (folder / path).read_bytes()
    if b"\0" in data:
        return [f"binary, sha256:{hashlib.sha256(data).hexdigest()}\n"]
    lines = data.decode("utf-8", errors="replace").splitlines(keepends=True)
    return [line for line in lines if not line.startswith(("_src_path:", "_commit:"))] if path == ANSWERS else lines


def difference(old: Path, new: Path) -> str:
    """Return the rendered difference as a patch."""
    told: list[str] = []
    for path in sorted(files_under(old) | files_under(new)):
        before, after = (text_of(folder, path) if (folder / path).exists() else [] for folder in (old, new))
        told += difflib.unified_diff(before, after, f"a/{path}", f"b/{path}")
    return "".join(line if line.endswith("\n") else line + "\n" for line in told)


def new_wheel(path: str, files: set[str]) -> bool:
    """Tell whether a wheel is gone because another version of it came."""
    name = path.split("-")[0]
    return path.endswith(".whl") and any(other.endswith(".whl") and other.split("-")[0] == name for other in files)


def owner_of(lists: dict[str, dict[str, str]], path: str) -> str | None:
    """Return who owns a file by the child's own list: managed, seed or nobody."""
    for owner in ("seed", "managed"):
        for pattern in lists.get(owner) or {}:
            if path.startswith(pattern) if pattern.endswith("/") else Path(path).match(pattern):
                return owner
    return None


class Check:
    """The comparison of two templates; `refused` collects the reasons."""

    def __init__(self, old: Path, new: Path, old_version: str) -> None:
        self.old, self.new, self.old_version = old, new, old_version
        self.refused: list[str] = []
        entries = load(new, "templates/retired.yml") or []
        self.retired = {(entry["kind"], entry["name"]) for entry in entries}
        self.entries = entries

    def gone(self, kind: str, name: str, what: str) -> None:
        """Refuse what is gone unless it is listed as retired."""
        if (kind, name) not in self.retired:
            reason = f"{what} is gone: keep it, or list it in templates/retired.yml (kind {kind}, name {name})"
            self.refused += [reason] if reason not in self.refused else []

    def check_settings(self) -> None:
        """Refuse what needs trust, and questions and choices that are gone."""
        settings = load(self.new, "copier.yml")
        self.refused += [
            f"copier.yml has {name}: children would need --trust" for name in FORBIDDEN if settings.get(name)
        ]
        before, after = questions(self.old), questions(self.new)
        for name, question in before.items():
            if name not in after:
                self.gone("question", name, f"the question {name}")
                continue
            for value in choices(question):
                if value not in choices(after[name]):
                    self.gone("choice", f"{name}={value}", f"the choice {value} of {name}")

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
        """Refuse retirement entries without a version and a reason."""
        for entry in self.entries:
            for key in ("kind", "name", "version", "reason"):
                if not entry.get(key):
                    self.refused.append(f"templates/retired.yml: {entry} lacks {key}")

    def check_version(self) -> None:
        """Refuse a version that is not the next patch, minor or major after the last release."""
        text = (self.new / "VERSION").read_text(encoding="utf-8").strip()
        major, minor, patch = order(self.old_version)
        following = {(major, minor, patch + 1), (major, minor + 1, 0), (major + 1, 0, 0)}
        if text != self.old_version and order(text.partition(".dev")[0]) not in following:
            self.refused.append(f"VERSION is {text}, which does not follow {self.old_version}")
        changelog = self.new / "CHANGELOG.md"
        told = not changelog.exists() or f"## {text}" in changelog.read_text(encoding="utf-8")
        if text != self.old_version and ".dev" not in text and not told:
            self.refused.append(f"CHANGELOG.md has no section '## {text}'")

    def check_files(self, where: str, old: Path, new: Path) -> None:
        """Refuse files that vanish, seeds that become managed and files on no list, in one rendered answer set."""
        lists: list[dict[str, dict[str, str]]] = []
        for folder in (old, new):
            try:
                lists.append(load(folder, LISTS) or {})
            except yaml.YAMLError as error:
                lists.append({})
                self.refused += [f"{LISTS} ({where}) cannot be read: {error}"] if folder == new else []
        answers = load(new, ANSWERS) if (new / ANSWERS).exists() else {}
        package = f"src/{answers.get('package_name')}/"
        for path in sorted(files_under(old) - files_under(new)):
            if not new_wheel(path, files_under(new)):
                self.gone("file", path.replace(package, "src/{package}/"), f"{path} ({where})")
        for path in sorted(files_under(new)):
            owner = owner_of(lists[1], path)
            if owner is None:
                self.refused.append(f"{path} ({where}) is on neither list of templates/ownership.yml")
            elif owner == "managed" and owner_of(lists[0], path) == "seed":
                self.refused.append(f"{path} ({where}) was the owner's and would be changed by updates")

    def differences(self, folder: Path) -> Iterator[tuple[str, str]]:
        """Check each answer set of the old version and give its name and rendered difference."""
        for number, answers in enumerate(answer_sets(self.old)):
            where = " ".join(str(value) for name, value in answers.items() if name != "project_name")
            old, new = folder / f"{number}-old", folder / f"{number}-new"
            if render(self.old, answers, old):
                continue
            refusal = render(self.new, answers, new)
            if refusal is not None:
                retired = any(kind in ("choice", "image", "question") for kind, _ in self.retired)
                self.refused += [] if retired else [f"children with {where} cannot update: {refusal}"]
                continue
            self.check_files(where, old, new)
            yield where, difference(old, new)


def report(check: Check, folder: Path, quiet: bool) -> None:
    """Run every check and print what children will see, each difference once with the sets that it reaches."""
    check.check_settings()
    check.check_images()
    check.check_entries()
    check.check_version()
    reached: dict[str, list[str]] = {}
    for where, text in check.differences(folder):
        reached.setdefault(text, []).append(where)
    for text, sets in reached.items():
        print(f"== {len(sets)} answer sets: {'; '.join(sets)}")
        print((text if not quiet else "") or "nothing changes\n" * (not text), end="")


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
    for reason in check.refused:
        print(f"release-check: refused: {reason}", file=sys.stderr)
    print(f"release-check: {'refused' if check.refused else 'good'}, compared with {version}", file=sys.stderr)
    return 1 if check.refused else 0


if __name__ == "__main__":
    sys.exit(main())
