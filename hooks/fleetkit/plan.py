"""Plan the update of one child: make it in a clone, classify it, keep its commit, patch and log; push nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_repo_runtime.update.answers import read_answers
from gpu_repo_runtime.update.git_calls import call, git
from gpu_repo_runtime.update.template_versions import UpdateError, changes_between, last_line
from gpu_repo_runtime.update.trial import Trial, trial

from fleetkit.answers import ANSWERS, answers_in
from fleetkit.children import Child, FleetError, same_place, shown
from fleetkit.git_rules import guard
from fleetkit.isolation import Tests, passes
from fleetkit.state import Record, State

COMMIT = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+-]*")
OUTCOMES = (
    "error",
    "at risk",
    "test failed",
    "conflict",
    "to do",
    "clean",
    "left out",
    "up to date",
    "paused",
)  # the worst first


def refresh(child: Child, clone: Path) -> str:
    """Make `clone` a full clone of the child as it is now and return its commit. Raises CalledProcessError."""
    if not (clone / ".git").exists():
        shutil.rmtree(clone, ignore_errors=True)
        half = clone.with_name(f".{clone.name}.half")  # no child is called so
        shutil.rmtree(half, ignore_errors=True)
        git(clone.parent, "clone", "--quiet", "--no-tags", "--no-checkout", "--", child.url, str(half))
        git(half, "remote", "set-url", "origin", shown(child.url))  # no password stays on the disk
        guard(half)
        if call(half, "rev-parse", "--verify", "--quiet", "HEAD").returncode:
            raise UpdateError("its repository is empty, or its default branch is gone: there is nothing to update")
        git(half, "reset", "--quiet", "--hard")
        half.rename(clone)
        return git(clone, "rev-parse", "HEAD").strip()
    guard(clone)
    git(clone, "worktree", "prune")
    git(clone, "fetch", "--quiet", "--no-tags", "--", child.url, "+HEAD:refs/fleet/head")
    git(clone, "reset", "--quiet", "--hard", "refs/fleet/head")
    git(clone, "clean", "--quiet", "-ffdx")
    return git(clone, "rev-parse", "HEAD").strip()


def commit_tree(state: State, child: Child, place: Path, tree: str, message: str, ref: str) -> str:
    """Commit a tree on HEAD of `place` to `ref`, keep it in the child's bundle and return the commit."""
    # The date of the child's commit makes a plan of the same child the same commit, in another folder too.
    date = git(place, "show", "--no-patch", "--format=%cI", "HEAD").strip()
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    commit = git(place, "commit-tree", tree, "-p", "HEAD", "-m", message, more=dates).strip()
    git(place, "update-ref", ref, commit)
    git(place, "bundle", "create", "--quiet", str(state.bundle(child.name)), ref, f"^{commit}^")
    return commit


def keep(state: State, child: Child, trial: Trial) -> Record:
    """Commit the result of a trial on a ref of its own in the clone and keep its patch."""
    message = f"Update the template from {trial.old} to {trial.new.tag}"
    ref = f"refs/fleet/plan/{trial.new.tag}"
    commit = commit_tree(state, child, trial.tree, trial.commit_tree(), message, ref)
    patch = state.folder / "patches" / f"{child.name}.patch"
    patch.write_text(trial.patch(), encoding="utf-8", errors="surrogateescape")
    return {
        "from": trial.old,
        "to": trial.new.tag,
        "files": [outcome.as_dict() for outcome in trial.outcomes],
        "commit": commit,
        "patch": patch.name,
        "changelog": changes_between(trial.new.changelog, trial.since or trial.old, trial.new.tag),
    }


def outcome_of(trial: Trial, tests: bool | None) -> str:
    """Return the one word for a child: edits at risk hold it back, then failed tests, then conflicts."""
    if trial.code == 4:
        return "at risk"
    if trial.code == 3:
        return "conflict"
    return "clean" if tests is not False else "test failed"


def try_update(state: State, child: Child, to: str, tests: Tests) -> Record:
    """Make the update in the child's clone and return what is to be remembered of it."""
    clone = state.clone(child.name)
    log = state.folder / "logs" / f"{child.name}.log"
    log.unlink(missing_ok=True)
    with trial(clone, to) as made:
        if made is None:
            return {"outcome": "up to date", "from": to, "to": to, "files": []}
        record = keep(state, child, made)
        ref = f"refs/fleet/plan/{made.new.tag}"
        passed = passes(tests, clone, ref, log) if tests.command and made.code == 0 else None
        return record | {"outcome": outcome_of(made, passed), "log": log.name if log.exists() else ""}


class Planning:
    """The plan of one child in the making: what goes wrong is its outcome "error", with one line that says why.

    A plan of the same child commit and wish is kept as it is, unless `keep_known` is false; then it is not `due`.
    """

    def __init__(self, state: State, child: Child, wanted: Record, keep_known: bool = True) -> None:
        self.state, self.child, self.started = state, child, time.monotonic()
        before = state.read(child.name)
        self.record: Record = {"name": child.name, "url": child.url, "wave": child.wave, "owner": child.owner}
        self.record |= {key: before[key] for key in ("pushed",) if key in before}
        self.kept = self.due = False
        if child.paused:
            self.record["outcome"] = "paused"
            return
        with self.told() as record:
            record["child_commit"] = refresh(child, state.clone(child.name))
            record |= wanted
            same = all(before.get(key) == record[key] for key in ("child_commit", *wanted))
            self.kept = keep_known and same and before.get("outcome") not in ("error", "paused", None)
            self.due = not self.kept
        if self.kept:
            self.record = before

    @contextmanager
    def told(self) -> Iterator[Record]:
        """Give the record to write into, and write there what goes wrong."""
        record = self.record
        try:
            yield record
        except (UpdateError, FleetError) as error:
            record |= {"outcome": "error", "message": str(error)}
        except subprocess.CalledProcessError as error:
            record |= {"outcome": "error", "message": f"git {error.cmd[5]}: {last_line(error.stderr)}"}
        except Exception as error:  # one child must not stop the others
            record |= {"outcome": "error", "message": f"{type(error).__name__}: {last_line(str(error))}"}

    def end(self) -> Record:
        """Remember what was planned and return it."""
        if not self.kept:
            self.record["seconds"] = round(time.monotonic() - self.started, 2)
            self.state.write(self.child.name, self.record)
        return self.record


def plan_child(state: State, child: Child, source: str, to: str, tests: Tests) -> Record:
    """Plan the update of one child and remember it."""
    planning = Planning(state, child, {"wanted": to, "test": shown(tests.command)})
    with planning.told() as record:
        if planning.due:
            answers = read_answers(state.clone(child.name))
            answers_in((state.clone(child.name) / ANSWERS).read_bytes())
            if not same_place(str(answers["_src_path"]), source):
                raise UpdateError(f"it follows another template, {answers['_src_path']}")
            if not COMMIT.fullmatch(answers["_commit"]):
                raise UpdateError(f".copier-answers.yml: _commit names no version: {answers['_commit']!r}")
            record |= try_update(state, child, to, tests)
    return planning.end()
