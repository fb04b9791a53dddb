"""Take a version back: close the requests for it, revert it where it was merged."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gpu_repo_runtime.update.git_calls import call, git
from gpu_repo_runtime.update.template_versions import last_line, version_of

from fleetkit.answers import ANSWERS, version_in
from fleetkit.branches import FETCHED, branch_of, is_ours, push, remote_refs
from fleetkit.children import Child, Fleet, FleetError
from fleetkit.clients import reason
from fleetkit.hosts import Host, connect
from fleetkit.lockfiles import PATTERN, TITLE, locks_at
from fleetkit.plan import refresh
from fleetkit.requests import kind_of
from fleetkit.state import LOCKS, Record, State


def version_at(clone: Path, commit: str) -> str:
    """Return the version that a commit of a child follows; nothing where it cannot be read."""
    try:
        return version_in(git(clone, "show", f"{commit}:{ANSWERS}"))
    except subprocess.CalledProcessError:
        return ""


def update_commit(clone: Path, head: str, version: str) -> str:
    """Return the commit of the default branch that brought exactly `version`. Raises FleetError.

    A merge, a squash and a rebase are one commit there, whose answers follow the version and whose parent's do not.
    """
    log = git(clone, "log", "--first-parent", "--format=%H", head, "--", ANSWERS)
    for commit in log.split():
        if version_at(clone, commit) == version and version_at(clone, f"{commit}^") != version:
            return commit
    raise FleetError(f"its history does not show which commit brought {version}: revert it by hand")


def locks_commit(clone: Path, head: str, planned: Record) -> str:
    """Return the merged renewal that brought the locks as they are; nothing where something else did.

    A merge has the tool's commit in it, a rebase and a squash its title; in another squash it is known by the locks
    that the plan had made, where this folder still knows the plan.
    """
    where = ("--", f":(top,glob){PATTERN}")
    newest = git(clone, "log", "--first-parent", "--max-count=1", "--format=%H", head, *where).strip()
    if newest and call(clone, "rev-parse", "--verify", "--quiet", f"{newest}^").returncode == 0:
        titles = git(clone, "log", "--format=%s", f"{newest}^..{newest}").splitlines()
        made = planned.get("commit", "")
        known = made and call(clone, "cat-file", "-e", f"{made}^{{commit}}").returncode == 0
        if any(title.startswith(TITLE) for title in titles):
            return newest
        if known and locks_at(clone, newest) == locks_at(clone, made) != locks_at(clone, f"{newest}^"):
            return newest
    return ""


def revert(state: State, child: Child, host: Host, refs: dict[str, str], commit: str, back: str, title: str) -> str:
    """Open a request from the branch `back` that takes a commit back; return its address, or its branch."""
    clone = state.clone(child.name)
    parents = git(clone, "show", "--no-patch", "--format=%P", commit).split()
    git(clone, "revert", "--no-edit", *(["-m", "1"] if len(parents) > 1 else []), commit)
    push(state, child, git(clone, "rev-parse", "HEAD").strip(), back, refs.get(back, ""))
    return host.request(back, refs.get("base", "main"), title, f"Reverts {commit}.", False) or back


def delete(state: State, child: Child, branch: str, commit: str) -> None:
    """Delete a branch that is at `commit`. Raises CalledProcessError."""
    lease = f"--force-with-lease=refs/heads/{branch}:{commit}"
    clone = state.clone(child.name)
    git(clone, "push", "--quiet", "--no-verify", lease, "--", child.url, f":refs/heads/{branch}")


def take_locks_back(state: State, fleet: Fleet, child: Child) -> Record:
    """Close the open renewal of a child's locks; without one, revert the merged renewal that brought its locks."""
    record = state.read(child.name)
    for key in ("rollback", "rollback_error"):
        record.pop(key, None)
    try:
        host, refs = connect(child, fleet.host_of(child)), remote_refs(state, child)
        head = refresh(child, state.clone(child.name))
        open_now = {one.branch for one in host.opened()}
        done = []
        for branch in sorted(name for name in {*refs, *open_now} if kind_of(name) == LOCKS):
            closed = host.close(branch)
            clone = state.clone(child.name)
            ours = branch in refs and is_ours(clone, child, branch, head)
            if ours and locks_at(clone, FETCHED) == locks_at(clone, head):
                ours = False  # what is left over of a branch that was merged as a squash
            if ours:
                delete(state, child, branch, refs[branch])
            done += ["closed"] if closed or ours else []
        record["rollback"] = "closed" if done else ""
        if not done and (commit := locks_commit(state.clone(child.name), head, record)):
            back, title = f"template/revert-{LOCKS}-{commit[:12]}", "Take the renewal of the locks back"
            record["rollback"] = revert(state, child, host, refs, commit, back, title)
        if record["rollback"]:
            record.pop("pushed", None)
    except subprocess.CalledProcessError as error:
        record["rollback_error"] = f"git {error.cmd[5]}: {last_line(error.stderr)}"
    except Exception as error:  # one child must not stop the others
        record["rollback_error"] = reason(error)
    record |= {"name": child.name}
    state.write(child.name, record)
    return record


def roll_back(state: State, fleet: Fleet, child: Child, version: str) -> Record:
    """Take the update to `version` back: a reverting branch where it was merged, else the request is closed.

    Everything is found on the host, so an empty folder is enough. Copier refuses to go back to an older version, so
    the commit that brought the update is reverted.
    """
    record = state.read(child.name)
    for key in ("rollback", "rollback_error"):
        record.pop(key, None)
    try:
        host, refs = connect(child, fleet.host_of(child)), remote_refs(state, child)
        clone, branch = state.clone(child.name), branch_of(version)
        head = refresh(child, clone)
        now, wanted = version_of(version_at(clone, head)), version_of(version)
        if now is not None and now == wanted:
            commit, title = update_commit(clone, head, version), f"Take the template's {version} back"
            record["rollback"] = revert(state, child, host, refs, commit, f"template/revert-{version}", title)
        else:
            closed, later = host.close(branch), now is not None and wanted is not None and now > wanted
            if later and not closed:
                at = version_at(clone, head)
                raise FleetError(f"it follows {at}, which came after {version}: take that back first")
            if refs.get(branch) and is_ours(clone, child, branch, head):
                delete(state, child, branch, refs[branch])
                closed = True
            record["rollback"] = "closed" if closed else ""
            if record.get("pushed", {}).get("branch") == branch:
                record.pop("pushed")
    except subprocess.CalledProcessError as error:
        record["rollback_error"] = f"git {error.cmd[5]}: {last_line(error.stderr)}"
    except Exception as error:  # one child must not stop the others
        record["rollback_error"] = reason(error)
    record |= {"name": child.name}
    state.write(child.name, record)
    return record
