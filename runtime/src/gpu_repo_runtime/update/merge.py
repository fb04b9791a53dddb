"""Bring the template's change into a child by `git cherry-pick`, and list what it did and what is left to do."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml

from .git import NONE, Git, UpdateError, clean
from .locks import LOCKS, renew_locks
from .releases import Releases, number
from .render import ANSWERS, LEFT_ALONE, read_answers, template_change

Given = Mapping[str, str]  # answers that change with the update
MARKERS = "both sides changed the same lines: resolve the conflict markers"
CONFLICTS = {  # the two letters of `git status`: the child, the template
    **dict.fromkeys(("UU", "AA"), MARKERS),
    "UD": "the template dropped it and you changed it: delete it, or keep it as your own file",
    **dict.fromkeys(("DD", "AU", "UA"), "both sides moved something here: keep what you need"),
}
HIDDEN = "an ignore rule hides it; it is staged: commit it with `git commit`"
KINDS = {"A": "added", "D": "removed", "R": "renamed", "M": "updated", "T": "updated"}
ORDER = ("updated", "merged", "renamed", "added", "removed", "opted out", "conflict")
ACT = re.compile(r"(?ms)^\*\*You have to act\*\*\n(.*?)(?=\n\*\*|\n\n|\Z)")
ABOUT = re.compile(r"(?i)(?:live )?(?:service|batch|librar|platform)[^:]*:")  # whom: "Services and batch: ..."


@dataclass
class Change:
    """What an update does to one file: a kind of ORDER. `before` is the old name of a renamed file."""

    kind: str
    path: str
    note: str = ""
    before: str = ""


@dataclass
class Update:
    """One update: what the changelog requires of the owner (`act`), its files, what is left to do, and notes."""

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
    def code(self) -> int:
        """Return the exit code: 3 where a person has to act, 4 where an ignore rule hides an added file, else 0."""
        hidden = [one for one in self.files if one.kind == "added" and one.note]
        return 3 if self.conflicts or self.to_do else 4 if hidden else 0

    def text(self, link: str, dry_run: bool) -> str:
        """Return what a person reads; the last line is the next command."""
        lines = [f"{self.old} -> {self.new}" + (" (dry run: nothing is changed)" if dry_run else "")]
        for title, texts in (("You have to act", self.act), ("To do", self.to_do), ("Notes", self.notes)):
            lines += ["", f"{title}:", *(f"  - {text}" for text in texts)] if texts else []
        lines.append("")
        for one in sorted(self.files, key=lambda one: (ORDER.index(one.kind), one.path)):
            before = f" (was {one.before})" if one.before else ""
            lines.append(f"{one.kind:<10} {one.path}{before}{f': {one.note}' if one.note else ''}")
        steps = ["resolve each conflict and `git add` the file"] if self.conflicts else []
        steps += ['do what is listed under "To do"'] if self.to_do else []
        steps.append(f'scripts/setup && scripts/test && git commit -m "Update the template to {self.new}"')
        then = "the same command without --dry-run" if dry_run else ", then ".join(steps)
        return "\n".join([*lines, "", f"All changes: {link}", f"next: {then}"])


def to_act(changelog: str, old: str, new: str, answers: Mapping[str, object]) -> list[str]:
    """Return what a changelog requires of a child with these answers after `old` up to `new`, one entry a line."""
    kind, found = str(answers.get("project_type"))[:5], []
    for section in re.split(r"(?m)^## ", changelog)[1:]:
        name = section.split()[0].strip("[]")
        if number(old) < number(name) <= number(new):
            for entry in re.split(r"(?m)^- ", "\n".join(ACT.findall(section)))[1:]:
                about = match[0].lower() if (match := ABOUT.match(entry)) else kind
                if kind in about and ("training" not in about or answers.get("training", True)):
                    found.append(f"{name}: {' '.join(entry.split())}")
    return found


def check_place(git: Git, change: str) -> None:
    """Raise UpdateError where the update would overwrite a file that git does not track."""
    untracked = {*git.paths("ls-tree", "-r", "--name-only", "-z", change)} & {*git.paths("ls-files", "--others", "-z")}
    if untracked:
        raise UpdateError(
            f"the template has {', '.join(sorted(untracked)[:5])}, which exists here and is not in git (an ignore rule "
            "hides it?): `git add --force` and commit it, or move it away"
        )


def change_of(git: Git, state: str, path: str, before: str, edited: set[str], hidden: list[str]) -> Change:
    """Return what the update does to a file, by the two letters of `git status`."""
    if state in CONFLICTS:
        note = CONFLICTS[state]
        if note == MARKERS and path in LOCKS:
            note = f"both sides changed it: take yours with `git checkout --ours {path}`, then run scripts/lock"
        if note == MARKERS and b"<<<<<<< " not in (git.folder / path).read_bytes():
            note = "both sides changed it and git cannot merge it: yours is kept, add the template's change by hand"
        return Change("conflict", path, note)
    if state == "DU":
        git.text("rm", "--quiet", "--force", "--", path)
        return Change("opted out", path, "you deleted it, so it stays deleted")
    note = HIDDEN if state[0] == "A" and path in hidden else ""
    return Change("merged" if state[0] == "M" and path in edited else KINDS[state[0]], path, note, before)


def name_left(git: Git, update: Update, given: Given) -> None:
    """List the answers that Copier replaced by a default, and the files with the old name of a package."""
    before, after = read_answers(git), yaml.safe_load(git.file(ANSWERS, ""))
    for name, value in before.items():
        if not name.startswith("_") and not given and after.get(name, value) != value:
            update.to_do.append(f"the answer {name}: {value} is no longer possible and became {after[name]}: check it")
    package = str(before.get("package_name", ""))
    if package != after.get("package_name", package):
        found = git.run("grep", "--cached", "-lzw", "-e", package).stdout.decode(errors="replace").split("\0")[:-1]
        names = [path for path in found if path != ANSWERS]
        update.to_do += [f"still with the old package name {package}: {', '.join(names)}"] if names else []


def make_update(git: Git, releases: Releases, old: str, new: str, given: Given = NONE, lock: bool = True) -> Update:
    """Bring the change into index and work tree, which must be clean; conflicts stay in the index as git keeps them.

    With `lock`, the locks follow. Raises UpdateError; `git reset --hard` gives the last commit back.
    """
    update = Update(old, new, to_act(releases.git.file("CHANGELOG.md", new), old, new, read_answers(git)))
    change = template_change(git, releases, old, new, given)
    check_place(git, change)
    done = git.run("cherry-pick", "--no-commit", "-X", "ignore-cr-at-eol", change)
    git.run("cherry-pick", "--quit")
    status = ("status", "--porcelain", "--find-renames", "--untracked-files=no", "-z")
    if done.returncode and not any(row[:2] in (*CONFLICTS, "DU") for row in git.paths(*status)):
        raise UpdateError(f"git cherry-pick: {clean(done.stderr.decode(errors='replace'))}")
    if lock:
        renew_locks(git, update.to_do, update.notes)
    if git.file(LEFT_ALONE):
        update.notes.append(f"the template's fixes do not reach what {LEFT_ALONE} lists")
    edited = set(git.paths("diff", "--name-only", "--no-renames", "-z", f"{change}^", "HEAD")) - {*LOCKS, ANSWERS}
    hidden = git.paths("ls-files", "--cached", "--ignored", "--exclude-standard", "-z")
    rows = iter(git.paths(*status))
    for row in rows:
        update.files.append(change_of(git, row[:2], row[3:], next(rows) if row[0] == "R" else "", edited, hidden))
    name_left(git, update, given)
    return update
