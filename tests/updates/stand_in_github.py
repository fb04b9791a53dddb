"""What GitHub answers: organisations, repositories and pull requests."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from tests.updates.code_host import OPENED, Server

Query = dict[str, list[str]]
WAYS = {"merge": "allow_merge_commit", "squash": "allow_squash_merge", "rebase": "allow_rebase_merge"}


def project_in(server: Server, path: str) -> str:
    """Return the repository that a path names; nothing where it names none."""
    found = re.match(r"/repos/([^/]+/[^/]+)", path)
    return found[1] if found else ""


def moved(server: Server, method: str, path: str, old: str) -> tuple[int, dict[str, str], Any]:
    """Answer for a repository that is elsewhere by now."""
    there = server.address + path.replace(old, server.moved[old], 1)
    return 301 if method == "GET" else 307, {"Location": there}, {"message": "Moved Permanently", "url": there}


def answer(server: Server, method: str, path: str, query: Query, body: Any) -> tuple[int, Any]:
    """Answer as GitHub's REST interface does."""
    if path == "/orgs/acme":
        return 200, {"login": "acme", "url": f"{server.address}/orgs/acme"}
    if path == "/orgs/acme/repos":
        return 200, [
            {"full_name": n, "archived": n in server.archived, "url": f"{server.address}/repos/{n}"}
            for n in server.answers
        ]
    if path.endswith("/contents/.copier-answers.yml"):
        project = project_in(server, path)
        if project in server.odd_files:
            code, _, told = server.odd_files[project]
            return code, json.loads(told)
        text = server.answers.get(project)
        if text is None:
            return 404, {"message": "Not Found"}
        return 200, {"type": "file", "encoding": "base64", "content": base64.b64encode(text.encode()).decode()}
    if path == "/graphql":
        return graphql(server, body["query"], body["variables"]["input"])
    project = project_in(server, path)
    if not project:
        return 404, {"message": "Not Found"}
    rest = path.removeprefix(f"/repos/{project}")
    if method != "GET" and project in server.read_only:
        return 403, {"message": "Resource not accessible by personal access token"}
    if found := re.fullmatch(r"/commits/([0-9a-f]+)(/status|/check-runs)?", rest):
        return commit(server, project, found[1], found[2])
    if found := re.fullmatch(r"/pulls/(\d+)/merge", rest):
        return merged(server, project, int(found[1]), body)
    if found := re.fullmatch(r"/pulls/(\d+)/requested_reviewers", rest):
        asked = [*body.get("reviewers", []), *body.get("team_reviewers", [])]
        if not set(asked) <= set(server.people) and "reviewers" in body:
            return 422, {"message": "Reviews may only be requested from collaborators."}
        server.requests[project][int(found[1]) - 1]["asked"] = body
        return 201, server.requests[project][int(found[1]) - 1]
    if found := re.fullmatch(r"/issues/(\d+)/comments", rest):
        return server.comment(f"{project}/{found[1]}", method, body)
    if not rest:
        at = {"url": f"{server.address}/repos/{project}", "archived": project in server.archived}
        at |= {"id": server.number(project), "default_branch": server.default_branch(project)}
        return 200, {"full_name": project, "name": project.split("/")[1]} | at | server.settings.get(project, {})
    found = re.fullmatch(r"/pulls(?:/(\d+))?", rest)
    return pulls(server, method, project, found[1], query, body) if found else (404, {"message": "Not Found"})


def graphql(server: Server, query: str, wish: dict[str, Any]) -> tuple[int, Any]:
    """Let a pull request be merged once it is green, or no more, or make it a draft or none."""
    [name] = re.findall(r"(\w+)\(input", query)
    [pull] = [one for known in server.requests.values() for one in known if one["node_id"] == wish["pullRequestId"]]
    project = pull["node_id"].partition("#")[0]
    if name == "enablePullRequestAutoMerge":
        server.calls.append(("AUTOMERGE", wish["expectedHeadOid"]))
        pull["auto"] = True
        return 200, {"data": {name: {"actor": {"login": "bot"}}}}
    if name == "disablePullRequestAutoMerge":
        if not pull.pop("auto", False):
            return 200, {"errors": [{"message": "Can't disable auto-merge for this pull request"}], "data": None}
        return 200, {"data": {name: {"actor": {"login": "bot"}}}}
    if name == "convertPullRequestToDraft" and project in server.no_drafts:
        return 200, {"errors": [{"message": "Draft pull requests are not supported in this repository."}], "data": None}
    pull["draft"] = name == "convertPullRequestToDraft"
    return 200, {"data": {name: {"clientMutationId": None, "pullRequest": {"isDraft": pull["draft"]}}}}


def commit(server: Server, project: str, name: str, part: str | None) -> tuple[int, Any]:
    """Return a commit, its statuses or its check runs."""
    said = server.said(project, name)
    statuses = [state for state in said[:1] if state != "in_progress"]  # check runs are the rest
    if part == "/status":
        told = [{"state": state} for state in [*statuses, *server.statuses.get(project, [])]]
        states = {one["state"] for one in told}
        state = "failure" if states & {"failure", "error"} else "success" if states == {"success"} else "pending"
        return 200, {"state": state, "total_count": len(told), "statuses": told[:30]}  # its first page
    runs = [
        {"check_suite": {}, "status": one, "conclusion": None}
        if one == "in_progress"
        else {"check_suite": {}, "status": "completed", "conclusion": one}
        for one in said[len(statuses) :]
    ]
    at = f"{server.address}/repos/{project}/commits/{name}"
    return 200, {"total_count": len(runs), "check_runs": runs} if part else {"sha": name, "url": at}


def merged(server: Server, project: str, number: int, body: Any) -> tuple[int, Any]:
    """Merge a pull request as its repository allows it."""
    pull, way = server.requests[project][number - 1], body.get("merge_method", "merge")
    if not server.settings.get(project, {}).get(WAYS[way], True):
        return 405, {"message": "Merge commits are not allowed on this repository."}
    if project in server.protected:
        return 405, {"message": "At least 1 approving review is required by reviewers with write access."}
    if body.get("sha") != server.head(project, pull["head"]["ref"]):
        return 409, {"message": "Head branch was modified. Review and try the merge again."}
    server.merge(project, pull, way)
    pull.update(state="closed", merged_at=OPENED)
    return 200, {"merged": True, "sha": body["sha"], "message": "merged"}


def pulls(server: Server, method: str, project: str, number: str | None, query: Query, body: Any) -> tuple[int, Any]:
    """Return, open or change pull requests."""
    known = server.requests.setdefault(project, [])
    for pull in known:
        if pull["state"] == "open":
            pull["head"]["sha"] = server.head(project, pull["head"]["ref"])
    if method == "POST":
        if any(pull["head"]["ref"] == body["head"] and pull["state"] == "open" for pull in known):
            return 422, {"message": "Validation Failed", "errors": [{"message": "A pull request already exists"}]}
        known.append(opened(server, project, len(known) + 1, body))
        return 201, known[-1]
    if method == "PATCH":
        known[int(number or 0) - 1].update(body)
    if number:
        return 200, known[int(number) - 1]
    head, state = query.get("head", [""])[0].partition(":")[2], query["state"][0]
    return 200, [pull for pull in known if state in (pull["state"], "all") and head in (pull["head"]["ref"], "")]


def opened(server: Server, project: str, number: int, body: Any) -> dict[str, Any]:
    """Return a new pull request."""
    pull, issue = (f"{server.address}/repos/{project}/{kind}/{number}" for kind in ("pulls", "issues"))
    return dict(body) | {
        "head": {
            "label": f"{project.split('/')[0]}:{body['head']}",
            "ref": body["head"],
            "repo": {"id": server.number(project)},
            "sha": server.head(project, body["head"]),
        },
        "base": {"ref": body["base"]},
        "node_id": f"{project}#{number}",
        "created_at": OPENED,
        "number": number,
        "state": "open",
        "merged_at": None,
        "requested_reviewers": [],
        "html_url": f"https://example.com/{project}/{number}",
        "url": pull,
        "issue_url": issue,
    }
