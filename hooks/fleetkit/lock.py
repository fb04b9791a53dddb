"""Renew the locks of one child, by its own scripts/lock where the child's code reaches nothing; push nothing."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from gpu_repo_runtime.eject import MARK
from gpu_repo_runtime.update.answers import read_answers
from gpu_repo_runtime.update.git_calls import UpdateError, git
from packaging.requirements import InvalidRequirement, Requirement

from fleetkit.children import Child, FleetError, shown
from fleetkit.isolation import Tests, files_left, passes
from fleetkit.lockfiles import LIMIT, PATTERN, TITLE, differences, locks_at, why_no_lock
from fleetkit.plan import Planning, commit_tree
from fleetkit.state import LOCKS, Record, State

REF = f"refs/fleet/plan/{LOCKS}"
EJECTED = f"src/gpu_repo_runtime/{MARK}"
CAUSE = 300  # characters of the words of the resolver that a line shows
SAID = re.compile(r"(?m)^lock: (.*)$")


@dataclass(frozen=True)
class Wish:
    """What a renewal is to bring: the newest of some packages, of all, or only what must change."""

    packages: tuple[str, ...] = ()
    upgrade: bool = False

    @property
    def name(self) -> str:
        """Return what the renewal is called."""
        return (
            f"{LOCKS} of {', '.join(self.packages)}" if self.packages else f"{LOCKS}, newest" if self.upgrade else LOCKS
        )

    @property
    def options(self) -> list[str]:
        """Return the options of scripts/lock."""
        chosen = [f"--upgrade-package={package}" for package in self.packages]
        return chosen + (["--upgrade"] if self.upgrade else [])


def wish_of(packages: Iterable[str], upgrade: bool) -> Wish:
    """Check what was asked for. Raises FleetError."""
    found = []
    for text in packages:
        try:
            asked = Requirement(text)
        except InvalidRequirement as error:
            raise FleetError(
                f"--package {text!r}: it needs a name, or a name with versions: starlette>=0.49.1"
            ) from error
        if asked.url or asked.extras or asked.marker:
            raise FleetError(f"--package {text!r}: it needs a name, or a name with versions: starlette>=0.49.1")
        found.append(f"{asked.name}{asked.specifier}")
    if found and upgrade:
        raise FleetError("--package and --upgrade: take one of them, --upgrade brings every package")
    return Wish(tuple(sorted(set(found))), upgrade)


def uv() -> Path:
    """Return the program that resolves. Raises FleetError."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if not found:
        raise FleetError("uv is not installed here: it resolves the locks (`pip install uv`)")
    return Path(found).absolute()


def command(wish: Wish) -> str:
    """Return the command that renews the locks of a child which was never set up."""
    program = shlex.quote(str(uv()))
    setup = f"{program} venv --quiet --no-project --clear .venv && ln -s {program} .venv/bin/uv"
    return f"{setup} && bash scripts/lock {shlex.join(wish.options)}"


def with_files(clone: Path, files: dict[str, str]) -> str:
    """Return the tree of HEAD with these files in the place of what was there; each keeps its mode."""
    rows = [row.split("\t", 1) for row in git(clone, "ls-tree", "-z", "HEAD").split("\0") if row]
    modes = {name: about.split()[0] for about, name in rows}
    with TemporaryDirectory(prefix="index-") as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        git(clone, "read-tree", "HEAD", more=index)
        for name, text in files.items():
            blob = git(clone, "hash-object", "-w", "--no-filters", "--stdin", stdin=text).strip()
            git(clone, "update-index", "--add", "--cacheinfo", f"{modes.get(name, '100644')},{blob},{name}", more=index)
        return git(clone, "write-tree", more=index).strip()


def with_line_ends_of(before: str, text: str) -> str:
    """Return a new lock with the line ends of the one before: where all end alike, resolving changes none of them."""
    plain = text.replace("\r\n", "\n")
    return plain.replace("\n", "\r\n") if "\r\n" in before and "\n" not in before.replace("\r\n", "") else plain


def title_of(wish: Wish, changes: list[str]) -> str:
    """Return what the request is called: the package itself where one was asked for."""
    names = {re.split(r"[^\w.-]", package)[0].lower().replace("_", "-") for package in wish.packages}
    told = [change for change in changes if change.split()[0] in names] or (changes if len(changes) == 1 else [])
    return f"{TITLE}: {', '.join(told)}" if told and len(told) < 4 else f"{TITLE} ({len(changes)} packages)"


def why(words: str) -> str:
    """Return in one line why the locks could not be made: the script's last words and the resolver's cause."""
    lines = [line.strip() for line in SAID.findall(words) or words.splitlines() if line.strip()]
    cause = next((line.strip() for line in words.splitlines() if line.strip().startswith(("cause:", "╰─▶"))), "")
    return (lines[-1] if lines else "it failed without a message") + (f" ({cause[:CAUSE]})" if cause else "")


def resolved(state: State, child: Child, wish: Wish, tests: Tests) -> dict[str, str]:
    """Return the locks as the child's own scripts/lock makes them now. Raises UpdateError."""
    log = state.folder / "logs" / f"{child.name}.log"
    log.unlink(missing_ok=True)
    works = replace(tests, command=command(wish), readable=(*tests.readable, str(uv())))
    made = files_left(works, state.clone(child.name), "HEAD", log, PATTERN, LIMIT)
    if made is None:
        words = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        raise UpdateError(f"scripts/lock: {why(words)}")
    for name, text in made.items():
        if wrong := why_no_lock(text):
            raise UpdateError(f"scripts/lock wrote something into {name} that is not a lock: {wrong[:80]!r}")
    return made


def renew(state: State, child: Child, wish: Wish, tests: Tests) -> Record:
    """Resolve the locks of a child, commit what changed in its clone, and return what is to be remembered of it."""
    clone = state.clone(child.name)
    paths = set(git(clone, "ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0"))
    before = locks_at(clone, "HEAD")
    known: Record = {"locks": True, "from": "", "to": wish.name, "files": [], "changes": []}
    known["from"] = str(read_answers(clone)["_commit"])
    if EJECTED in paths:
        known["message"] = "it has ejected the runtime: its copy in src/ gets no fix by this"
    if not before or "scripts/lock" not in paths:
        what = "no requirements*.lock" if "scripts/lock" in paths else "no scripts/lock"
        return known | {"outcome": "left out", "message": f"it has {what}, so there is nothing to renew"}
    after = resolved(state, child, wish, tests)
    if gone := sorted(before.keys() - after.keys()):
        raise UpdateError(f"scripts/lock left {gone[0]} as something else than a text of at most {LIMIT >> 20} MiB")
    after = {name: with_line_ends_of(before.get(name, ""), text) for name, text in after.items()}
    changed = {name: text for name, text in after.items() if before.get(name) != text}
    if not changed:
        return known | {"outcome": "up to date"}
    known["changes"] = differences(before, before | after)
    known["title"] = title_of(wish, known["changes"])
    content = hashlib.sha256(json.dumps(before | after, sort_keys=True).encode()).hexdigest()[:12]
    commit = commit_tree(state, child, clone, with_files(clone, changed), known["title"], REF)
    patch = state.folder / "patches" / f"{child.name}.patch"
    patch.write_text(git(clone, "diff", f"{commit}^", commit), encoding="utf-8", errors="surrogateescape")
    files = [{"path": name, "kind": "updated", "note": ""} for name in sorted(changed)]
    known |= {"commit": commit, "branch": f"template/{LOCKS}-{content}", "patch": patch.name, "files": files}
    log = state.folder / "logs" / f"{child.name}.log"
    good = not tests.command or passes(tests, clone, REF, log)
    return known | {"outcome": "clean" if good else "test failed", "log": log.name if log.exists() else ""}


def lock_child(state: State, wish: Wish, tests: Tests, resume: bool, child: Child) -> Record:
    """Plan the renewal of one child's locks and remember it; `resume` keeps what a stopped run has made already."""
    # What an index offers changes from day to day, so that a finished plan is never kept.
    planning = Planning(state, child, {"wanted": wish.name, "test": shown(tests.command)}, resume)
    with planning.told() as record:
        if planning.due:
            record |= renew(state, child, wish, tests)
    return planning.end()
