"""Push what a finished plan holds, one branch a child, and open a request for it; take it back again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml
from gpu_repo_runtime.update.git_calls import git
from gpu_repo_runtime.update.template_versions import last_line, version_of

from fleetkit.children import WAVES, Child, Fleet, FleetError
from fleetkit.git_rules import AUTHOR
from fleetkit.hosts import Host, connect
from fleetkit.plan import refresh
from fleetkit.state import Record, State

PUSHED = ("clean", "conflict")  # edits at risk and failed tests are held back until a person looked at them


def branch_of(version: str) -> str:
    """Return the branch that carries the update to a version."""
    return f"template/{version}"


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
        plans = "+refs/fleet/plan/*:refs/fleet/plan/*"
        git(clone, "fetch", "--quiet", "--no-tags", "--", str(state.bundle(child.name)), plans)
    git(clone, "cat-file", "-e", f"{commit}^{{commit}}")


def words(record: Record) -> tuple[str, str]:
    """Return title and text of the request."""
    lines = [f"The template went from {record['from']} to {record['to']}.", ""]
    lines += [record["changelog"], ""] if record.get("changelog") else []
    for kind in ("conflict", "at risk", "opted out"):
        files = [file["path"] for file in record["files"] if file["kind"] == kind]
        lines += [f"{kind}:", *(f"- `{path}`" for path in files), ""] if files else []
    if record["outcome"] == "conflict":
        lines.append("This is a draft: settle the conflict markers on this branch before you merge it.")
    return f"Update the template to {record['to']}", "\n".join(lines)


def apply_child(state: State, fleet: Fleet, child: Child) -> Record:
    """Push the planned commit of one child and open its request; what is there already is not done again."""
    record = state.read(child.name)
    branch = branch_of(record["to"])
    try:
        if record["commit"] != state.planned(child.name):
            raise FleetError(f"its record names {record['commit'][:12]}, which is not what the plan made: plan again")
        host = connect(child, fleet.host_of(child))
        if address := host.closed(branch):
            record["pushed"] = {"branch": branch, "address": address, "open": False, "closed": "by a person"}
            record.pop("apply_error", None)
            state.write(child.name, record)
            return record
        refs = remote_refs(state, child)
        there, ours = refs.get(branch, ""), record.get("pushed", {}).get("commit", "")
        if there != record["commit"]:
            if refs.get("HEAD") != record["child_commit"]:
                raise FleetError("it has new commits since the plan: plan again")
            take(state, child, record["commit"])
            # An empty folder remembers no push: who made the commits of the branch says whose they are.
            if there not in ("", ours) and not is_ours(state.clone(child.name), child, branch, record["child_commit"]):
                raise FleetError(f"somebody else changed its branch {branch}: merge or delete it")
            push(state, child, record["commit"], branch, there)
        title, text = words(record)
        record["pushed"] = {"branch": branch, "commit": record["commit"]}
        state.write(child.name, record)
        draft = record["outcome"] == "conflict"
        address = host.request(branch, refs.get("base", "main"), title, text, draft)
        record["pushed"] |= {"address": address, "draft": draft, "open": True}
        record.pop("apply_error", None)
    except subprocess.CalledProcessError as error:
        record["apply_error"] = f"git {error.cmd[5]}: {last_line(error.stderr)}"
    except Exception as error:  # one child must not stop the others
        record["apply_error"] = last_line(str(error)) if isinstance(error, FleetError) else f"its host says: {error}"
    state.write(child.name, record)
    return record


def is_merged(state: State, child: Child, to: str) -> bool:
    """Tell whether the child's default branch follows version `to` by now, or a later one."""
    try:
        commit = refresh(child, state.clone(child.name))
        answers = yaml.safe_load(git(state.clone(child.name), "show", f"{commit}:.copier-answers.yml"))
        now, wanted = version_of(str(answers["_commit"])), version_of(to)
        return now is not None and wanted is not None and now >= wanted
    except (subprocess.CalledProcessError, yaml.YAMLError, KeyError, TypeError):
        return False


def check_waves(state: State, fleet: Fleet, wave: str, to: str, threshold: float) -> None:
    """Raise FleetError while too few children of the waves before `wave` have merged `to`."""
    for earlier in WAVES[: WAVES.index(wave)]:
        members = [child for child in fleet.children if child.wave == earlier and not child.paused]
        merged = sum(is_merged(state, child, to) for child in members)
        if members and merged / len(members) < threshold:
            raise FleetError(
                f"wave {earlier} merged {to} in {merged} of {len(members)} children and needs {threshold:.0%}: "
                f"settle them before wave {wave}, or lower --threshold"
            )


def to_push(state: State, fleet: Fleet, wave: str, max_open: int | None) -> list[Child]:
    """Return the children of a wave whose planned update is to be pushed, as many as may be open at once.

    Raises FleetError without a finished plan.
    """
    plan = state.plan()
    if not plan.get("finished"):
        raise FleetError("there is no finished plan: run fleet plan first")
    members = [child for child in fleet.children if child.wave == wave and not child.paused]
    records = {child.name: state.read(child.name) for child in fleet.children}
    planned = [
        c for c in members if records[c.name].get("to") == plan["to"] and records[c.name].get("outcome") in PUSHED
    ]
    pushed = [child for child in fleet.children if records[child.name].get("pushed", {}).get("open")]
    merged = {child.name for child in pushed if is_merged(state, child, plan["to"])}
    open_now = {child.name for child in pushed} - merged
    again = [child for child in planned if child.name in open_now]
    new = [child for child in planned if child.name not in open_now | merged]
    return again + (new if max_open is None else new[: max(0, max_open - len(open_now))])


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


def is_ours(clone: Path, child: Child, branch: str, head: str) -> bool:
    """Tell whether every commit of a branch of the child was made by this tool."""
    git(clone, "fetch", "--quiet", "--no-tags", "--", child.url, f"+refs/heads/{branch}:refs/fleet/branch")
    makers = git(clone, "log", "--format=%ce", f"{head}..refs/fleet/branch").split()
    return set(makers) == {AUTHOR["GIT_COMMITTER_EMAIL"]}


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
                lease = f"--force-with-lease=refs/heads/{branch}:{refs[branch]}"
                git(clone, "push", "--quiet", "--no-verify", lease, "--", child.url, f":refs/heads/{branch}")
                closed = True
            record["rollback"] = "closed" if closed else ""
            if record.get("pushed", {}).get("branch") == branch:
                record.pop("pushed")
    except subprocess.CalledProcessError as error:
        record["rollback_error"] = f"git {error.cmd[5]}: {last_line(error.stderr)}"
    except Exception as error:  # one child must not stop the others
        record["rollback_error"] = last_line(str(error))
    record |= {"name": child.name}
    state.write(child.name, record)
    return record
