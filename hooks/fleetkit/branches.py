"""The branches of a child: what carries an update, what stands on the remote, how one is pushed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gpu_repo_runtime.update.git_calls import UpdateError, call, git
from gpu_repo_runtime.update.template_versions import version_of

from fleetkit.answers import ANSWERS, version_in
from fleetkit.children import Child
from fleetkit.git_rules import AUTHOR
from fleetkit.lockfiles import locks_at
from fleetkit.plan import refresh
from fleetkit.state import Record, State

FETCHED = "refs/fleet/branch"  # where a branch of a child is looked at


def branch_of(version: str) -> str:
    """Return the branch that carries the update to a version."""
    return f"template/{version}"


def branch_for(state: State, child: Child, to: str) -> str:
    """Return the branch that carries what is planned for a child: locks have one for each content."""
    record = state.read(child.name)
    return str(record["branch"]) if record.get("branch") and record.get("to") == to else branch_of(to)


def remote_refs(state: State, child: Child) -> dict[str, str]:
    """Return the commits of the child's branches and of HEAD, and under "base" the name of the default branch."""
    refs: dict[str, str] = {}
    for line in git(state.folder, "ls-remote", "--symref", "--", child.url).splitlines():
        value, name = line.split("\t")
        if value.startswith("ref: "):
            refs["base"] = value.removeprefix("ref: refs/heads/")
        else:
            refs[name.removeprefix("refs/heads/")] = value
    return refs


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


def is_ours(clone: Path, child: Child, branch: str, head: str) -> bool:
    """Tell whether every commit of a branch of the child was made by this tool."""
    git(clone, "fetch", "--quiet", "--no-tags", "--", child.url, f"+refs/heads/{branch}:{FETCHED}")
    makers = git(clone, "log", "--format=%ce", f"{head}..{FETCHED}").split()
    return set(makers) == {AUTHOR["GIT_COMMITTER_EMAIL"]}
