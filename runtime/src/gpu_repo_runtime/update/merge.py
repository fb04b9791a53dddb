"""Bring the template's change into a child by `git cherry-pick`, and list what it did and what is left to do."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .changelog import to_act
from .git import Git, UpdateError, error_line
from .locks import LOCKS, renew_locks
from .releases import Releases
from .render import ANSWERS, Step, read_answers, template_change, with_release

CONFLICTS = {  # the stages that git keeps of a path: 1 the old release, 2 the child, 3 the new release
    "123": "both sides changed the same lines: resolve the conflict markers",
    "23": "both sides added it: resolve the conflict markers",
    "12": "the template dropped it and you changed it: delete it, or keep it as your own file",
    "1": "both sides moved it to different places: keep one",
    "2": "both sides moved something here: keep what you need",
    "3": "both sides moved something here: keep what you need",
}
KINDS = {"A": "added", "D": "removed", "R": "renamed", "M": "updated", "T": "updated"}
SHOWN = 20


@dataclass
class Change:
    """What an update does to one file. `before` is the old name of a renamed file."""

    kind: str
    path: str
    note: str = ""
    before: str = ""


@dataclass
class Update:
    """One update: its files, what a person has to do before it is complete (`to_do`), and notes.

    `act` is what the changelog requires of the owner.
    """

    old: str
    new: str
    act: list[str] = field(default_factory=list)
    files: list[Change] = field(default_factory=list)
    to_do: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def conflicts(self) -> list[Change]:
        """Return the files that a person has to resolve."""
        return [one for one in self.files if one.kind == "conflict"]

    @property
    def hidden(self) -> list[Change]:
        """Return the added files that an ignore rule hides from `git add`."""
        return [one for one in self.files if one.kind == "added" and one.note]


def stages(git: Git) -> dict[str, str]:
    """Return the conflicts of the index: path (from the repository's root) -> the stages that git keeps of it."""
    found: dict[str, str] = {}
    for row in git.paths("ls-files", "--unmerged", "--full-name", "-z"):
        facts, _, path = row.partition("\t")
        found[path] = found.get(path, "") + facts.split()[2]
    return found


def put(git: Git, path: str, text: bytes) -> None:
    """Write a file into index and work tree. Git does it, so that no link in the work tree is followed."""
    row = git.text("ls-files", "--stage", "--", path)
    blob = git.text("hash-object", "-w", "--stdin", stdin=text.decode("utf-8", "surrogateescape"))
    full = git.text("rev-parse", "--show-prefix") + path
    git.text("update-index", "--add", "--cacheinfo", f"{row.split()[0] if row else '100644'},{blob},{full}")
    git.text("checkout-index", "--force", "--", path)


def check_place(git: Git, change: str) -> None:
    """Raise UpdateError where the update would overwrite a file that git does not track."""
    root = Path(git.text("rev-parse", "--show-toplevel"))
    rendered = set(git.paths("ls-tree", "-r", "--name-only", "--full-tree", "-z", change))
    tracked = set(git.paths("ls-files", "--full-name", "-z"))
    untracked = sorted(path for path in rendered - tracked if os.path.lexists(root / path))
    if untracked:
        raise UpdateError(
            f"the template has {', '.join(untracked[:5])}, which exists here and is not in git (an ignore rule hides "
            "it?): `git add --force` and commit it, or move it away"
        )


def resolve_known(git: Git, update: Update) -> None:
    """Resolve the conflicts with one right answer: what the owner deleted stays deleted, a lock is resolved anew."""
    for path, found in stages(git).items():
        if found == "13":
            git.text("rm", "--quiet", "--force", "--", f":/{path}", env={"GIT_LITERAL_PATHSPECS": "0"})
            update.files.append(Change("opted out", path, "you deleted it, so it stays deleted"))
        elif os.path.basename(path) in LOCKS and "2" in found:
            prefix = git.text("rev-parse", "--show-prefix")
            own = git.bytes("cat-file", "-p", f":2:{path}")
            put(git, path.removeprefix(prefix), own)
            update.to_do.append(f"{path}: it is as you had it: run scripts/lock")


def list_conflicts(git: Git, update: Update) -> None:
    """List what a person has to resolve."""
    root = Path(git.text("rev-parse", "--show-toplevel"))
    for path, found in sorted(stages(git).items()):
        note = CONFLICTS.get(found, "git cannot merge it")
        if "markers" in note and b"<<<<<<< " not in (root / path).read_bytes():
            note = "both sides changed it and git cannot merge it: yours is kept, add the template's change by hand"
        update.files.append(Change("conflict", path, note))


def list_changes(git: Git, update: Update, change: str) -> None:
    """List what the index has that the last commit has not, except for conflicts."""
    conflicts = {one.path for one in update.conflicts}
    own = set(git.paths("diff", "--name-only", "--no-renames", "-z", f"{change}^", "HEAD"))
    fields = iter(git.paths("diff", "--cached", "--name-status", "--find-renames", "-z", "HEAD"))
    for letters in fields:
        kind, path, before = letters[0], next(fields), ""
        if kind in "RC":
            before, path = path, next(fields)
        if path in conflicts or kind == "U":
            continue
        merged = kind == "M" and path in own and os.path.basename(path) not in (*LOCKS, ANSWERS)
        update.files.append(Change("merged" if merged else KINDS.get(kind, "added"), path, before=before))
    name_hidden(git, {one.path: one for one in update.files if one.kind == "added"})


def name_hidden(git: Git, added: dict[str, Change]) -> None:
    """Note which of the added files an ignore rule hides from `git add`."""
    root, env = Git(Path(git.text("rev-parse", "--show-toplevel"))), {"GIT_LITERAL_PATHSPECS": "0"}
    names = "\0".join(f"./{path}" for path in added).encode("utf-8", "surrogateescape")
    found = root.run("check-ignore", "--no-index", "-z", "--stdin", stdin=names, env=env).stdout
    for path in found.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        one = added[path.removeprefix("./")]
        one.note = "an ignore rule hides it; it is staged: commit it with `git commit`, or `git add --force` it"


def name_package(git: Git, update: Update, before: str, after: str) -> None:
    """List the owner's files that still use the old name of a package that moved."""
    if before and after and before != after:
        word = rf"(^|[^A-Za-z0-9_]){re.escape(before)}($|[^A-Za-z0-9_])"
        found = git.run("grep", "--cached", "-lzE", word).stdout.decode(errors="replace").split("\0")
        found = [path for path in found if path and path != ANSWERS]
        if found:
            more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            update.to_do.append(f"still with the old package name {before}: {', '.join(found[:SHOWN])}{more}")


def name_replaced(git: Git, update: Update, before: dict[str, Any]) -> None:
    """List the answers that the new release does not accept and Copier replaced by a default."""
    try:
        after = yaml.safe_load(git.bytes("cat-file", "-p", f":0:./{ANSWERS}")) or {}
    except (UpdateError, yaml.YAMLError):  # a conflict in the answers: the owner sees both
        return
    for name, value in before.items():
        if not name.startswith("_") and name in after and after[name] != value:
            update.to_do.append(f"the answer {name}: {value} is no longer possible and became {after[name]}: check it")


def make_update(git: Git, releases: Releases, step: Step, lock: bool = True) -> Update:
    """Bring the change into index and work tree, which must be clean; conflicts stay in the index as git keeps them.

    Raises UpdateError: before anything is written, or `git reset --hard` gives the last commit back.
    """
    answers, files = read_answers(git), releases.unpacked(releases.commit(step.new))
    update = Update(step.old, step.new, to_act(files, step.old, step.new, str(answers.get("project_type", ""))))
    change = template_change(git, releases, step)
    check_place(git, change)
    pick = ("cherry-pick", "--no-commit", "-X", "ignore-cr-at-eol", change)
    done = Git(git.folder, git.env, (*git.settings, "merge.directoryRenames=true")).run(*pick)
    git.run("cherry-pick", "--quit")
    if done.returncode and not stages(git):
        raise UpdateError(f"git cherry-pick: {error_line(done.stderr)}")
    resolve_known(git, update)
    place = git.folder / ANSWERS
    own = place.read_bytes().decode("utf-8", "surrogateescape")
    text = with_release(own, step.new, releases.commit(step.new), step.source)
    place.write_bytes(text.encode("utf-8", "surrogateescape"))
    if not git.text("ls-files", "--unmerged", "--", ANSWERS):  # else the owner resolves the rest
        git.text("add", "--force", "--", ANSWERS)
    if lock:
        for path, data in renew_locks(git, update.to_do, update.notes).items():
            put(git, path, data)
    list_conflicts(git, update)
    list_changes(git, update, change)
    if not step.given:  # a given answer may change another one
        name_replaced(git, update, answers)
    name_package(git, update, str(answers.get("package_name", "")), str(step.given.get("package_name", "")))
    if git.run("cat-file", "-e", ":0:./src/gpu_repo_runtime/EJECTED").returncode == 0:
        update.notes.append("src/gpu_repo_runtime: your copy of the runtime stays as it is")
    return update
