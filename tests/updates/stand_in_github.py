"""What GitHub answers: organisations, repositories and pull requests."""

import base64
import re
from typing import Any

from tests.updates.code_host import OPENED, Server

Query = dict[str, list[str]]
NONE = (404, {"message": "Not Found"})


def answer(server: Server, method: str, path: str, query: Query, body: Any) -> tuple[int, Any]:
    """Answer as GitHub's REST interface does."""
    if path == "/orgs/acme":
        return 200, {"login": "acme", "url": f"{server.address}/orgs/acme"}
    if path == "/orgs/acme/repos":
        listed = ({"full_name": name, "url": f"{server.address}/repos/{name}"} for name in server.answers)
        return 200, [one | {"archived": False, "fork": False} for one in listed]
    if path == "/graphql":
        return graphql(server, body["query"], body["variables"]["input"])
    found = re.match(r"/repos/([^/]+/[^/]+)", path)
    if not found:
        return NONE
    project, rest = found[1], path.removeprefix(found[0])
    if rest == "/contents/.copier-answers.yml":
        if (text := server.answers.get(project)) is None:
            return NONE
        return 200, {"type": "file", "encoding": "base64", "content": base64.b64encode(text.encode()).decode()}
    if found := re.fullmatch(r"/commits/([0-9a-f]+)(/status|/check-runs)?", rest):
        return commit(server, project, found[1], found[2])
    if found := re.fullmatch(r"/issues/(\d+)/comments", rest):
        return server.comment(f"{project}/{found[1]}", body)
    found = re.fullmatch(r"/pulls(?:/(\d+))?", rest)
    return pulls(server, method, project, found[1], query, body) if found else NONE


def graphql(server: Server, query: str, wish: dict[str, Any]) -> tuple[int, Any]:
    """Make a pull request a draft, or ready."""
    [name] = re.findall(r"(\w+)\(input", query)
    [pull] = [one for known in server.requests.values() for one in known if one["node_id"] == wish["pullRequestId"]]
    pull["draft"] = name == "convertPullRequestToDraft"
    return 200, {"data": {name: {"clientMutationId": None, "pullRequest": {"isDraft": pull["draft"]}}}}


def commit(server: Server, project: str, name: str, part: str | None) -> tuple[int, Any]:
    """Return a commit, its statuses (the first of what its pipeline says) or its check runs (the others)."""
    said = server.said(project, name)
    if part == "/status":
        return 200, {"state": "pending", "total_count": len(said[:1]), "statuses": [{"state": one} for one in said[:1]]}
    if part:
        runs = [{"check_suite": {}, "status": "completed", "conclusion": one} for one in said[1:]]
        return 200, {"total_count": len(runs), "check_runs": runs}
    return 200, {"sha": name, "url": f"{server.address}/repos/{project}/commits/{name}"}


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
    head = {"label": f"{project.split('/')[0]}:{body['head']}", "ref": body["head"]}
    head |= {"repo": {"id": server.number(project)}, "sha": server.head(project, body["head"])}
    at = {"url": pull, "issue_url": issue, "html_url": f"https://example.com/{project}/{number}"}
    made = {"node_id": f"{project}#{number}", "number": number, "created_at": OPENED, "state": "open"}
    return dict(body) | at | made | {"head": head, "base": {"ref": body["base"]}, "merged_at": None}
