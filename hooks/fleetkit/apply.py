"""Push what a finished plan holds, one branch a child, and open a request for it."""

from __future__ import annotations

import subprocess

from gpu_repo_runtime.update.template_versions import last_line

from fleetkit.adopt import words_of_adoption
from fleetkit.branches import branch_for, is_ours, push, remote_refs, take
from fleetkit.children import Child, Fleet, FleetError
from fleetkit.clients import reason
from fleetkit.hosts import connect
from fleetkit.state import Record, State

LISTED = 100  # packages that the text of a request names


def said_by(stderr: str) -> str:
    """Return why git did not push: what the host said and which branch it refused, else the last line."""
    told = [line.strip() for line in (stderr or "").splitlines() if line.startswith(("remote: ", " ! ["))]
    return " ".join(" ".join(told).split()) or last_line(stderr)


def words(record: Record) -> tuple[str, str]:
    """Return title and text of the request."""
    if record.get("locks"):
        return words_of_locks(record)
    if record.get("adopts"):
        return words_of_adoption(record)
    lines = [f"The template went from {record['from']} to {record['to']}.", ""]
    lines += [record["changelog"], ""] if record.get("changelog") else []
    for kind in ("conflict", "at risk", "opted out"):
        files = [file["path"] for file in record["files"] if file["kind"] == kind]
        lines += [f"{kind}:", *(f"- `{path}`" for path in files), ""] if files else []
    if record["outcome"] == "conflict":
        lines.append("This is a draft: settle the conflict markers on this branch before you merge it.")
    return f"Update the template to {record['to']}", "\n".join(lines)


def words_of_locks(record: Record) -> tuple[str, str]:
    """Return title and text of the request that renews locks."""
    lines = ["The locks were resolved anew, under the versions that pyproject.toml and the base image allow.", ""]
    lines += ["Changed:", "", *(f"- `{change}`" for change in record["changes"][:LISTED])]
    left = len(record["changes"]) - LISTED
    lines += [f"- and {left} more"] if left > 0 else []
    lines += ["", record["message"]] if record.get("message") else []
    return record["title"], "\n".join(lines)


def apply_child(state: State, fleet: Fleet, child: Child) -> Record:
    """Push the planned commit of one child and open its request; what is there already is not done again."""
    record = state.read(child.name)
    branch = branch_for(state, child, record["to"])
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
        there, ours = refs.branches.get(branch, ""), record.get("pushed", {}).get("commit", "")
        if there != record["commit"]:
            if refs.head != record["child_commit"]:
                raise FleetError("it has new commits since the plan: plan again")
            take(state, child, record["commit"])
            # An empty folder remembers no push: who made the commits of the branch says whose they are.
            if there not in ("", ours) and not is_ours(state.clone(child.name), child, branch, record["child_commit"]):
                raise FleetError(f"somebody else changed its branch {branch}: merge or delete it")
            push(state, child, record["commit"], branch, there)
        title, text = words(record)
        record["pushed"] = {"branch": branch, "commit": record["commit"]}
        state.write(child.name, record)
        draft = record["outcome"] in ("conflict", "to do")
        address = host.request(branch, refs.base, title, text, draft, child.owner)
        record["pushed"] |= {"address": address, "draft": draft, "open": True}
        if child.automerge and not draft:
            record["pushed"]["merge"] = host.merge_when_green(branch, record["commit"])
        record.pop("apply_error", None)
    except subprocess.CalledProcessError as error:
        record["apply_error"] = f"git {error.cmd[5]}: {said_by(error.stderr)}"
    except Exception as error:  # one child must not stop the others
        record["apply_error"] = reason(error)
    state.write(child.name, record)
    return record
