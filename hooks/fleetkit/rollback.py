"""Take a version back: close the requests for it, revert it where it was merged."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from gpu_repo_runtime.update.checkout import named
from gpu_repo_runtime.update.git_calls import call, git
from gpu_repo_runtime.update.template_versions import last_line, version_of

from fleetkit.adopt import ADOPTED
from fleetkit.answers import ANSWERS, version_in
from fleetkit.branches import FETCHED, UPDATE, Refs, branch_of, is_ours, push, remote_refs
from fleetkit.children import Child, Fleet, FleetError
from fleetkit.clients import reason
from fleetkit.hosts import Host, connect
from fleetkit.lockfiles import PATTERN, TITLE, locks_at
from fleetkit.plan import refresh
from fleetkit.requests import ADOPTION, kind_of
from fleetkit.state import ADOPTIONS, LOCKS, Record, State


def version_at(clone: Path, commit: str) -> str:
    """Return the version that a commit of a child follows; nothing where it cannot be read."""
    try:
        return version_in(git(clone, "show", f"{commit}:{ANSWERS}"))
    except subprocess.CalledProcessError:
        return ""


def update_commit(clone: Path, head: str, version: str) -> str:
    """Return the commit of the default branch that brought exactly `version`. Raises FleetError.

    A merge, a squash and a rebase are one commit there, whose answers follow the version and whose parent's an older
    one. Where the parent follows none, the repository started there or joined; a later one was taken back.
    """
    wanted = version_of(version)
    log = git(clone, "log", "--first-parent", "--format=%H", head, "--", ANSWERS)
    for commit in log.split():
        before = version_at(clone, f"{commit}^")
        older = before and ((was := version_of(before)) is None or (wanted is not None and was < wanted))
        if older and version_of(version_at(clone, commit)) == wanted:
            return commit
    raise FleetError(f"no update brought {version}: it started with it, or its history does not show the update")


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


def revert(state: State, child: Child, host: Host, refs: Refs, commit: str, back: str, title: str) -> str:
    """Open a request from the branch `back` that takes a commit back; return its address, or its branch."""
    clone = state.clone(child.name)
    head = git(clone, "rev-parse", "HEAD").strip()
    parents = git(clone, "show", "--no-patch", "--format=%P", commit).split()
    reverting = ("revert", "--no-edit", *(["-m", "1"] if len(parents) > 1 else []), commit)
    if (done := call(clone, *reverting)).returncode:
        since = git(clone, "diff", "--name-only", "--diff-filter=U").split("\n")[:-1]
        said = f"{named(since)} changed since" if since else last_line(done.stderr.decode(errors="replace"))
        raise FleetError(f"{commit[:12]} cannot be reverted by itself: {said}; revert it by hand")
    there = refs.branches.get(back, "")
    if there and not is_ours(clone, child, back, head):
        raise FleetError(f"its branch {back} was changed by somebody else: it is left alone")
    if not there or git(clone, "rev-parse", f"{FETCHED}^{{tree}}") != git(clone, "rev-parse", "HEAD^{tree}"):
        push(state, child, git(clone, "rev-parse", "HEAD").strip(), back, there)
    return host.request(back, refs.base, title, f"Reverts {commit}.", False) or back


def delete(state: State, child: Child, branch: str, commit: str) -> None:
    """Delete a branch that is at `commit`. Raises CalledProcessError."""
    lease = f"--force-with-lease=refs/heads/{branch}:{commit}"
    clone = state.clone(child.name)
    git(clone, "push", "--quiet", "--no-verify", lease, "--", child.url, f":refs/heads/{branch}")


def taken_back(state: State, child: Child, work: Callable[[Record], str]) -> Record:
    """Remember what `work` took back in a child, told by its record, or why it could not."""
    record = state.read(child.name)
    for key in ("rollback", "rollback_error"):
        record.pop(key, None)
    try:
        record["rollback"] = work(record)
    except subprocess.CalledProcessError as error:
        record["rollback_error"] = f"git {error.cmd[5]}: {last_line(error.stderr)}"
    except Exception as error:  # one child must not stop the others
        record["rollback_error"] = reason(error)
    record |= {"name": child.name}
    state.write(child.name, record)
    return record


def close_kind(state: State, child: Child, host: Host, refs: Refs, kind: str, merged: Callable[[], bool]) -> bool:
    """Close the open requests of one kind and delete their branches, where they are this tool's and not `merged`.

    What was merged as a squash leaves a branch over, which is looked at (FETCHED) and left alone.
    """
    clone, done = state.clone(child.name), False
    open_now = {one.branch for one in host.opened()}
    ours_by_name = {name for name in {*refs.branches, *open_now} if name.startswith(UPDATE)}
    for branch in sorted(name for name in ours_by_name if kind_of(name) == kind):
        closed = host.close(branch)
        ours = branch in refs.branches and is_ours(clone, child, branch, "HEAD") and not merged()
        if ours:
            delete(state, child, branch, refs.branches[branch])
        done = done or closed or ours
    return done


def take_locks_back(state: State, fleet: Fleet, child: Child) -> Record:
    """Close the open renewal of a child's locks; without one, revert the merged renewal that brought its locks."""

    def work(record: Record) -> str:
        host, refs, clone = connect(child, fleet.host_of(child)), remote_refs(state, child), state.clone(child.name)
        head = refresh(child, clone)
        done = close_kind(state, child, host, refs, LOCKS, lambda: locks_at(clone, FETCHED) == locks_at(clone, head))
        told = "closed" if done else ""
        if not done and (commit := locks_commit(clone, head, record)):
            back, title = f"template/revert-{LOCKS}-{commit[:12]}", "Take the renewal of the locks back"
            told = revert(state, child, host, refs, commit, back, title)
        if told:
            record.pop("pushed", None)
        return told

    return taken_back(state, child, work)


def take_adoption_back(state: State, fleet: Fleet, child: Child) -> Record:
    """Close the open adoption of a repository; where it was merged, revert the commit by which it joined."""

    def work(record: Record) -> str:
        host, refs, clone = connect(child, fleet.host_of(child)), remote_refs(state, child), state.clone(child.name)
        head = refresh(child, clone)
        follows = bool(version_at(clone, head))
        told = "closed" if close_kind(state, child, host, refs, ADOPTION, lambda: follows) else ""
        if follows and not told and (commit := adoption_commit(clone, head)):
            back, title = f"template/revert-{ADOPTIONS}{commit[:12]}", "Take the adoption of the template back"
            told = revert(state, child, host, refs, commit, back, title)
        if told:
            record.pop("pushed", None)
        return told

    return taken_back(state, child, work)


def adoption_commit(clone: Path, head: str) -> str:
    """Return the commit of the default branch by which this tool let a repository join, nothing where it did not."""
    log = git(clone, "log", "--no-patch", "--first-parent", "--diff-merges=first-parent", "--diff-filter=A",
              "--format=%H", head, "--", ANSWERS)  # fmt: skip
    for commit in log.split():
        first = not git(clone, "log", "-1", "--format=%P", commit).strip()  # a repository that began as a child
        titles = [] if first else git(clone, "log", "--format=%s", f"{commit}^..{commit}").splitlines()
        if any(title.startswith(ADOPTED) for title in titles):
            return commit
    return ""


def roll_back(state: State, fleet: Fleet, version: str, child: Child) -> Record:
    """Take the update to `version` back: a reverting branch where it was merged, else the request is closed.

    Everything is found on the host, so an empty folder is enough. Copier refuses to go back to an older version, so
    the commit that brought the update is reverted.
    """

    def work(record: Record) -> str:
        host, refs, clone = connect(child, fleet.host_of(child)), remote_refs(state, child), state.clone(child.name)
        head, wanted = refresh(child, clone), version_of(version)
        now = version_of(version_at(clone, head))
        named = {name: version_of(name.removeprefix(UPDATE)) for name in refs.branches if name.startswith(UPDATE)}
        branch = next((name for name, at in named.items() if wanted and at == wanted), branch_of(version))
        if now is not None and now == wanted:
            commit, title = update_commit(clone, head, version), f"Take the template's {version} back"
            told = revert(state, child, host, refs, commit, f"template/revert-{version}", title)
            if told:
                record.pop("pushed", None)
            return told
        closed, later = host.close(branch), now is not None and wanted is not None and now > wanted
        if later and not closed:
            raise FleetError(f"it follows {version_at(clone, head)}, which came after {version}: take that back first")
        if refs.branches.get(branch) and is_ours(clone, child, branch, head):
            delete(state, child, branch, refs.branches[branch])
            closed = True
        if record.get("pushed", {}).get("branch") == branch:
            record.pop("pushed")
        return "closed" if closed else ""

    return taken_back(state, child, work)
