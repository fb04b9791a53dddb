"""Take a version back: close the requests for it, revert it where it was merged."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml
from gpu_repo_runtime.update.git_calls import git
from gpu_repo_runtime.update.template_versions import last_line, version_of

from fleetkit.branches import branch_of, holds_locks, is_ours, push, remote_refs
from fleetkit.children import Child, Fleet, FleetError
from fleetkit.clients import reason
from fleetkit.hosts import Host, connect
from fleetkit.plan import refresh
from fleetkit.requests import kind_of
from fleetkit.state import LOCKS, Record, State


def version_at(clone: Path, commit: str) -> str:
    """Return the version that a commit of a child follows; nothing where it cannot be read."""
    try:
        answers = yaml.safe_load(git(clone, "show", f"{commit}:.copier-answers.yml"))
        return str(answers["_commit"])
    except (subprocess.CalledProcessError, yaml.YAMLError, KeyError, TypeError):
        return ""


def update_commit(clone: Path, head: str, version: str) -> str:
    """Return the commit of the default branch that brought exactly `version`. Raises FleetError.

    A merge, a squash and a rebase are one commit there, whose answers follow the version and whose parent's do not.
    """
    log = git(clone, "log", "--first-parent", "--format=%H", head, "--", ".copier-answers.yml")
    for commit in log.split():
        if version_at(clone, commit) == version and version_at(clone, f"{commit}^") != version:
            return commit
    raise FleetError(f"its history does not show which commit brought {version}: revert it by hand")


def revert(state: State, child: Child, host: Host, refs: dict[str, str], head: str, version: str) -> str:
    """Open a request that takes back what brought `version`; return its address, or its branch."""
    clone = state.clone(child.name)
    commit = update_commit(clone, head, version)
    parents = git(clone, "show", "--no-patch", "--format=%P", commit).split()
    git(clone, "revert", "--no-edit", *(["-m", "1"] if len(parents) > 1 else []), commit)
    back = f"template/revert-{version}"
    push(state, child, git(clone, "rev-parse", "HEAD").strip(), back, refs.get(back, ""))
    title = f"Take the template's {version} back"
    return host.request(back, refs.get("base", "main"), title, f"Reverts {commit}.", False) or back


def delete(state: State, child: Child, branch: str, commit: str) -> None:
    """Delete a branch that is at `commit`. Raises CalledProcessError."""
    lease = f"--force-with-lease=refs/heads/{branch}:{commit}"
    clone = state.clone(child.name)
    git(clone, "push", "--quiet", "--no-verify", lease, "--", child.url, f":refs/heads/{branch}")


def take_locks_back(state: State, fleet: Fleet, child: Child) -> Record:
    """Close the open renewal of a child's locks; one that was merged is told, since later locks may stand on it."""
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
            ours = branch in refs and is_ours(state.clone(child.name), child, branch, head)
            if ours:
                delete(state, child, branch, refs[branch])
            done += ["closed"] if closed or ours else []
        if not done and record.get("pushed", {}).get("open") and holds_locks(state, child, record):
            raise FleetError(
                f"its renewal is merged: revert {record['pushed'].get('address') or record['branch']} there"
            )
        record["rollback"] = "closed" if done else ""
        if done:
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
            record["rollback"] = revert(state, child, host, refs, head, version)
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
