"""Real updates of edited children, from every recent release to the work tree.

The work tree gets one more line at the end of every file that it renders: each managed file has a fix that must
arrive, and each seed one that must not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_repo_runtime.update.ownership import owners_in
from releases import order

from releasekit.answer_sets import deciding
from releasekit.findings import Entry, Finding
from releasekit.repository import export, git, neutral
from releasekit.template import NAME, Answers, Template, answers_of, files_of, render

FIX = b"# the template's fix\n"
LINE = b"# the owner's line\n"
ANSWERS = ".copier-answers.yml"
UNREAD = ("tests", "runtime", "docs", "benchmarks", "hooks", "tools")  # no render reads these: Copier clones often
COMMIT = "The template's commit:"
UPDATE = Path(__file__).resolve().parents[1] / "safe_update.py"


@dataclass(frozen=True)
class Start:
    """One child to update: its release, its answers, what was retired since, and whether by plain Copier too."""

    version: str
    answers: Answers
    retired: frozenset[Entry]
    plain: bool


def recent(known: dict[str, str]) -> list[str]:
    """Return the releases of the last two minor versions, oldest first."""
    minors = sorted({order(version)[:2] for version in known})[-2:]
    return [version for version in known if order(version)[:2] in minors]


def make_family(repository: Path, known: dict[str, str], tree: str, tag: str, folder: Path) -> None:
    """Make a repository with a tag for each of the `known` releases, and the work tree with fixes as `tag`."""
    git(repository, "clone", "--quiet", "--no-tags", "--no-checkout", "--", str(repository), str(folder))
    parent = "HEAD"
    for version, commit in [*known.items(), (tag, tree)]:
        for path in folder.iterdir():
            if path.name != ".git":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        export(repository, commit, folder)
        for name in UNREAD:
            shutil.rmtree(folder / name, ignore_errors=True)
        if version == tag:
            add_fixes(folder)
        git(folder, "add", "--all", "--force")
        parent = git(folder, "commit-tree", git(folder, "write-tree").strip(), "-p", parent, "-m", version).strip()
        git(folder, "tag", f"v{version.removeprefix('v')}", parent)


def add_fixes(template: Path) -> None:
    """Put FIX at the end of every text file under the folders that are rendered."""
    settings = (template / "copier.yml").read_text(encoding="utf-8")
    root = next((line.split(":", 1)[1] for line in settings.splitlines() if line.startswith("_subdirectory:")), ".")
    for path in sorted((template / root.strip(" \"'").partition("{")[0]).rglob("*")):
        inside = ".git" in path.relative_to(template).parts or "answers_file" in path.name
        if inside or path.is_symlink() or not path.is_file() or b"\0" in (text := path.read_bytes()):
            continue
        if path.parent != template / "templates" and "wheels" not in path.parts:
            path.write_bytes(text.removesuffix(b"\n") + b"\n" + FIX)


def starts(template: Template, version: str, retired: set[Entry], plain: bool) -> Iterator[Start]:
    """Give a child of one release for each choice of its first question, with other answers in each release."""
    leading = deciding(template)
    first = leading[:1]
    turn = sum(order(version))
    for value in template.choices[first[0]] if first else [None]:
        others = {
            name: values[turn % len(values)]
            for name, values in template.choices.items()
            if name not in leading and not template.questions[name].get("multiselect")
        }
        yield Start(version, others | ({first[0]: value} if first else {}), frozenset(retired), plain)


def copy(family: Path, start: Start, child: Path) -> str:
    """Start a child of a release as a person does; return Copier's error, "" if there is none."""
    given = [part for name, value in (NAME | start.answers).items() for part in ("--data", f"{name}={value}")]
    return run(child.parent, "-m", "copier", "copy", "--defaults", "--quiet", "--vcs-ref", f"v{start.version}",
               *given, str(family), str(child))  # fmt: skip


def run(folder: Path, *arguments: str, accepted: tuple[int, ...] = (0,)) -> str:
    """Run a Python program; return the last line of its errors if its exit code is not accepted, else ""."""
    command = [sys.executable, "-W", "ignore", *arguments]
    done = subprocess.run(command, cwd=folder, env=neutral(), capture_output=True, text=True, check=False)
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
    for path in texts:
        if owners.of(path) == "managed" and path not in (ANSWERS, ".copier-ownership.yml"):
            (child / path).write_bytes(LINE + (child / path).read_bytes())
            return path
    return ""


def check_update(family: Path, tag: str, start: Start, folder: Path) -> list[Finding]:
    """Update one edited child, once as its owner does and once by plain Copier, and return what was wrong."""
    child, plain, new = folder / "child", folder / "plain", folder / "new"
    rejected = {("choice", f"{name}={value}") for name, value in start.answers.items()} & start.retired
    if copy(family, start, child) or rejected:  # the comparison of the answer sets reports it
        return []
    git(child, "init", "--quiet")
    git(child, "add", "--all", "--force")
    git(child, "commit", "--quiet", "--message=Start from the template")
    if start.plain:
        git(folder, "clone", "--quiet", str(child), str(plain))
    edited = edit(child)
    git(child, "add", "--all", "--force")
    git(child, "commit", "--quiet", "--message=The owner's edits")
    git(folder, "clone", "--quiet", str(child), str(folder / "before"))
    failed = start.plain and run(plain, "-m", "copier", "update", "--defaults", "--vcs-ref", tag)
    failed = (
        f"plain copier update fails: {failed}"
        if failed
        else run(child, str(UPDATE), "--to", tag, "--no-lock", accepted=(0, 3, 4))
    )
    if failed:
        return [Finding(f"it fails: {failed}")]
    answers = {name: value for name, value in answers_of(child).items() if not name.startswith("_")}
    new.mkdir()
    export(family, tag, new)
    render(new, answers, folder / "fresh")
    files = {name for kind, name in start.retired if kind == "file"}
    return [
        *check_answers(folder / "before", child, start.retired),
        *check_result(folder / "before", child, folder / "fresh", edited, files),
    ]


def check_answers(before: Path, after: Path, retired: frozenset[Entry]) -> Iterator[Finding]:
    """Find answers that an update loses or changes."""
    old, new = answers_of(before), answers_of(after)
    for key in ("_commit", "_src_path"):
        if not isinstance(new.get(key), str):
            yield Finding(f"{ANSWERS} has no {key} after it: the child can never update again")
    texts = [(folder / ANSWERS).read_text(encoding="utf-8") for folder in (before, after)]
    if COMMIT in texts[0] and COMMIT not in texts[1]:
        yield Finding(f"{ANSWERS} no longer names the template's commit: a moved tag would go unnoticed")
    for name, value in old.items():
        if name.startswith("_") or ("question", name) in retired or ("choice", f"{name}={value}") in retired:
            continue
        if name not in new:
            yield Finding(f"the answer {name}={value} is gone after it")
        elif new[name] != value:
            yield Finding(f"the answer {name}={value} has become {new[name]}")


def check_result(before: Path, after: Path, fresh: Path, edited: str, retired: set[str]) -> Iterator[Finding]:
    """Find files that an update loses, overwrites or leaves without the fix."""
    old_owners, new_owners = owners_in(before), owners_in(fresh)
    for path in sorted(files_of(before) | files_of(fresh)):
        was, now, new = (read(folder / path) for folder in (before, after, fresh))
        owner = new_owners.of(path) if new is not None else old_owners.of(path)
        if path == ANSWERS or path in retired:
            continue
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
    """Return a file's bytes, a link's target, or None if nothing is there."""
    if path.is_symlink():
        return os.readlink(path).encode()
    return path.read_bytes() if path.is_file() else None


def check_one(family: Path, tag: str, start: Start, folder: Path) -> list[Finding]:
    """Run one update in `folder`, which is removed afterwards."""
    folder.mkdir(parents=True)
    try:
        return check_update(family, tag, start, folder)
    finally:
        shutil.rmtree(folder)
