"""The branches of a child: what carries an update, what stands on the remote, how one is pushed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gpu_repo_runtime.update.git_calls import UpdateError, call, git
from gpu_repo_runtime.update.template_versions import version_of

from fleetkit.answers import ANSWERS, version_in
from fleetkit.children import Child
from fleetkit.git_rules import AUTHOR
from fleetkit.lockfiles import PATTERN, locks_at
from fleetkit.plan import refresh
from fleetkit.state import Record, State

UPDATE = "template/"  # how the branches of this tool begin
FETCHED = "refs/fleet/branch"  # where a branch of a child is looked at


def branch_of(version: str) -> str:
    """Return the branch that carries the update to a version."""
    return f"{UPDATE}{version}"


def branch_for(state: State, child: Child, to: str) -> str:
    """Return the branch that carries what is planned for a child: locks have one for each content."""
    record = state.read(child.name)
    return str(record["branch"]) if record.get("branch") and record.get("to") == to else branch_of(to)


@dataclass(frozen=True)
class Refs:
    """What stands on the remote of a child: HEAD, the name of the default branch, each branch with its commit."""

    head: str
    base: str
    branches: dict[str, str]


def remote_refs(state: State, child: Child) -> Refs:
    """Return what stands on the remote of a child."""
    head, base, branches = "", "main", dict[str, str]()
    for line in git(state.folder, "ls-remote", "--symref", "--", child.url, "HEAD", "refs/heads/*").splitlines():
        value, name = line.split("\t")
        if value.startswith("ref: "):
            base = value.removeprefix("ref: refs/heads/") if name == "HEAD" else base
        elif name.startswith("refs/heads/"):
            branches[name.removeprefix("refs/heads/")] = value
        elif name == "HEAD":
            head = value
    return Refs(head, base, branches)


def push(state: State, child: Child, commit: str, branch: str, there: str) -> None:
    """Push `commit` to `branch`, which must be `there` ("" for: must not exist). Raises CalledProcessError."""
    clone = state.clone(child.name)
    lease = f"--force-with-lease=refs/heads/{branch}:{there}"
    git(clone, "push", "--quiet", "--no-verify", lease, "--", child.url, f"{commit}:refs/heads/{branch}")


def take(state: State, child: Child, commit: str) -> None:
    """Have the planned commit in the clone, which may be made only now. Raises CalledProcessError."""
    clone = state.clone(child.name)
    if not (clone / ".git").exists():
        refresh(child, clone)
    if call(clone, "cat-file", "-e", f"{commit}^{{commit}}").returncode and state.bundle(child.name).exists():
        plans = "+refs/fleet/plan/*:refs/fleet/plan/*"
        git(clone, "fetch", "--quiet", "--no-tags", "--", str(state.bundle(child.name)), plans)
    git(clone, "cat-file", "-e", f"{commit}^{{commit}}")


def holds_locks(state: State, child: Child, record: Record) -> bool:
    """Tell whether the child's default branch has the locks that were planned for it, or descends from them."""
    if not record.get("commit"):
        return record.get("outcome") == "up to date"
    clone = state.clone(child.name)
    try:
        now = refresh(child, clone)
        take(state, child, record["commit"])
    except (subprocess.CalledProcessError, UpdateError):
        return False
    if call(clone, "merge-base", "--is-ancestor", record["commit"], now).returncode == 0:
        return True
    return locks_at(clone, now) == locks_at(clone, record["commit"])


def brings_nothing(state: State, child: Child, branch: str) -> bool:
    """Tell whether the child's default branch has the locks of a branch already. Raises CalledProcessError."""
    clone = state.clone(child.name)
    now = refresh(child, clone)
    git(clone, "fetch", "--quiet", "--no-tags", "--", child.url, f"+refs/heads/{branch}:{FETCHED}")
    return locks_at(clone, now) == locks_at(clone, FETCHED)


def is_merged(state: State, child: Child, to: str) -> bool:
    """Tell whether the child's default branch follows version `to` by now, or a later one."""
    record = state.read(child.name)
    if record.get("locks") and record.get("to") == to:
        return holds_locks(state, child, record)
    if record.get("adopts") and record.get("to") == to:  # the version that it follows once it has joined
        to = record["adopts"]
    try:
        commit = refresh(child, state.clone(child.name))
        text = git(state.clone(child.name), "show", f"{commit}:{ANSWERS}")
        now, wanted = version_of(version_in(text)), version_of(to)
        return now is not None and wanted is not None and now >= wanted
    except (subprocess.CalledProcessError, UpdateError):
        return False


def merged_at(state: State, child: Child) -> datetime | None:
    """Return when the child's default branch got the answers or the locks it has, as its history tells.

    None where the newest such commit is this tool's own: it has the date of the commit that it was made on.
    """
    where = ("--", ANSWERS, f":(top,glob){PATTERN}")
    told = git(state.clone(child.name), "log", "--first-parent", "-1", "--format=%cI %ce", "HEAD", *where).split()
    return datetime.fromisoformat(told[0]) if told and told[1:] != [AUTHOR["GIT_COMMITTER_EMAIL"]] else None


def is_ours(clone: Path, child: Child, branch: str, head: str) -> bool:
    """Tell whether every commit of a branch of the child was made by this tool."""
    git(clone, "fetch", "--quiet", "--no-tags", "--", child.url, f"+refs/heads/{branch}:{FETCHED}")
    makers = git(clone, "log", "--format=%ce", f"{head}..{FETCHED}").split()
    return set(makers) == {AUTHOR["GIT_COMMITTER_EMAIL"]}
