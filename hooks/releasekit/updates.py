"""Real updates of edited children, from every recent release to the work tree.

The work tree gets one more line at the end of every file that it renders: each managed file has a fix that must
arrive, and each seed one that must not.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from git_calls import git
from gpu_repo_runtime.update.ownership import owners_in
from releases import order

from releasekit.children import ANSWERS, check_answers
from releasekit.findings import Entry, Finding
from releasekit.template import Answers, Template, answers_of, export, files_of, read_answers, render, start

FIX = b"# the template's fix\n"
LINE = b"# the owner's line\n"
UPDATE = Path(__file__).resolve().parents[1] / "safe_update.py"


@dataclass(frozen=True)
class Update:
    """One edited child of a release to update to `tag` of `family`: by plain Copier, or by scripts/update."""

    family: Path
    tag: str
    version: str
    answers: Answers
    retired: frozenset[Entry]
    plain: bool

    @property
    def name(self) -> str:
        """Return the update in words."""
        return f"{'plain copier' if self.plain else 'the'} update of a child of {self.version}"


def recent(known: dict[str, str]) -> list[str]:
    """Return the releases of the last two minor versions, oldest first."""
    minors = sorted({order(version)[:2] for version in known})[-2:]
    return [version for version in known if order(version)[:2] in minors]


def make_family(repository: Path, known: dict[str, str], tree: str, tag: str, folder: Path) -> None:
    """Clone the template, with a tag for each of the `known` releases, and the work tree with fixes as `tag`."""
    git(repository, "clone", "--quiet", "--no-tags", "--no-checkout", "--", str(repository), str(folder))
    for version, commit in known.items():
        git(folder, "tag", f"v{version}", commit)
    git(folder, "read-tree", "--reset", "-u", tree)
    add_fixes(folder)
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", tag)
    git(folder, "tag", tag)


def add_fixes(template: Path) -> None:
    """Put FIX at the end of every text file under the folders that are rendered."""
    settings = (template / "copier.yml").read_text(encoding="utf-8")
    root = next((line.split(":", 1)[1] for line in settings.splitlines() if line.startswith("_subdirectory:")), ".")
    for path in sorted((template / root.strip(" \"'").partition("{")[0]).rglob("*")):
        if path.is_symlink() or not path.is_file() or b"\0" in (text := path.read_bytes()):
            continue
        aside = {".git", "wheels"} & set(path.relative_to(template).parts) or "answers_file" in path.name
        if not aside and path.parent != template / "templates":
            path.write_bytes(text.removesuffix(b"\n") + b"\n" + FIX)


def updates_of(template: Template, family: Path, tag: str, version: str, retired: set[Entry], newest: bool
               ) -> Iterator[Update]:  # fmt: skip
    """Give the update of a child for each choice of the first question; other answers vary from release to release.

    A child with a retired answer stays where it is. Children of the newest release update by plain Copier too.
    """
    first, turn = next(iter(template.choices), ""), sum(order(version))
    for value in template.choices[first] if first else [None]:
        others = {name: values[turn % len(values)] for name, values in template.choices.items()
                  if name != first and name not in template.lists}  # fmt: skip
        with TemporaryDirectory() as folder:
            chosen = others | ({first: value} if first else {})
            answers = start(template, chosen, Path(folder, "child"))
        if not {("choice", f"{name}={value}") for name, value in answers.items()} & retired:
            for plain in (False, True) if newest else (False,):
                yield Update(family, tag, version, answers, frozenset(retired), plain)


def run(folder: Path, *arguments: str, accepted: tuple[int, ...] = (0,)) -> str:
    """Run a Python program; return the last line of its errors if its exit code is not accepted, else ""."""
    command = [sys.executable, "-W", "ignore", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    lines = [line.strip("│╭╰─ ") for line in done.stderr.splitlines() if line.strip("│╭╰─ ")]
    return "" if done.returncode in accepted else (lines or [f"exit code {done.returncode}"])[-1]


def edit(child: Path) -> str:
    """Edit what an owner edits: every seed, one managed file, a file of their own; return the managed file."""
    owners = owners_in(child)
    texts = [path for path in sorted(files_of(child)) if b"\0" not in (child / path).read_bytes()]
    for path in texts:
        if owners.of(path) == "seed":
            (child / path).write_bytes((child / path).read_bytes() + LINE)
    (child / "own.txt").write_bytes(LINE)
    edited = next((path for path in texts if owners.of(path) == "managed" and not path.startswith(".copier-")), "")
    if edited:
        (child / edited).write_bytes(LINE + (child / edited).read_bytes())
    return edited


def check_update(one: Update) -> list[Finding]:
    """Start an edited child, update it, and compare it with a new child; return what was wrong."""
    with TemporaryDirectory() as name:
        child, before, new, fresh = (Path(name, part) for part in ("child", "before", "new", "fresh"))
        given = [part for key, value in one.answers.items() for part in
                 ("--data", f"{key}={value if isinstance(value, str) else json.dumps(value)}")]  # fmt: skip
        failed = run(child.parent, "-m", "copier", "copy", "--defaults", "--quiet", "--vcs-ref", f"v{one.version}",
                     *given, str(one.family), str(child))  # fmt: skip
        if failed:
            return [Finding(f"a child of {one.version} cannot be started: {failed}")]
        edited = edit(child)
        git(child, "init", "--quiet")
        git(child, "add", "--all", "--force")
        git(child, "commit", "--quiet", "--message=Start from the template, with the owner's edits")
        git(child, "clone", "--quiet", str(child), str(before))
        if one.plain:
            failed = run(child, "-m", "copier", "update", "--defaults", "--vcs-ref", one.tag)
        else:
            failed = run(child, str(UPDATE), "--to", one.tag, "--no-lock", accepted=(0, 3, 4))
        if failed:
            return [Finding(f"the update fails: {failed}")]
        records = [*check_records(before, child)]
        if any(not finding.entries for finding in records):  # the answers cannot be read
            return records
        export(one.family, one.tag, new)
        render(new, answers_of(child), fresh)
        files = {path for kind, path in one.retired if kind == "file"}
        return [*records, *check_result(before, child, fresh, edited, files)]


def check_records(before: Path, after: Path) -> Iterator[Finding]:
    """Find what an update loses of the file that Copier records answers in."""
    try:
        now = read_answers(after)
    except yaml.YAMLError:  # plain `copier update` leaves conflicts in it
        now = {}
    for key in ("_commit", "_src_path"):
        if not isinstance(now.get(key), str):
            yield Finding(f"{ANSWERS} has no {key} after it: the child can never update again")
    yield from check_answers(answers_of(before), now)


def check_result(before: Path, after: Path, fresh: Path, edited: str, retired: set[str]) -> Iterator[Finding]:
    """Find files that an update loses, overwrites or leaves without the fix."""
    old_owners, new_owners = owners_in(before), owners_in(fresh)
    for path in sorted((files_of(before) | files_of(fresh)) - retired - {ANSWERS}):
        was, now, new = (read(folder / path) for folder in (before, after, fresh))
        owner = new_owners.of(path) if new is not None else old_owners.of(path)
        if was is None:
            if owner == "managed" and now is None:
                yield Finding(f"{path} is new and managed, and does not arrive")
        elif old_owners.of(path) == "seed" or owner is None:
            if was != now:
                yield Finding(f"{path} is the owner's, and it changes it")
        elif path == edited:
            if LINE not in (now or b""):
                yield Finding(f"it loses the owner's line in {path}")
        elif now != new:
            what = "no fix of it arrives" if now == was else "it is not what a new child gets"
            yield Finding(f"{path} is managed, and {what}")


def read(path: Path) -> bytes | None:
    """Return a file's bytes, or None if nothing is there."""
    return path.read_bytes() if path.is_file() else None
