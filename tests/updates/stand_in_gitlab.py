"""What GitLab answers: groups, projects, files and merge requests."""

import re
from typing import Any
from urllib.parse import unquote

from tests.updates.code_host import OPENED, Server

Query = dict[str, list[str]]
PROJECT = re.compile(r"/api/v4/projects/([^/]+)")
NONE = (404, {"message": "404 Not found"})


def answer(server: Server, method: str, path: str, query: Query, body: Any) -> tuple[int, Any]:
    """Answer as GitLab's REST interface does."""
    if path == "/api/v4/groups/acme/projects":
        listed = ({"id": server.number(name), "path_with_namespace": name} for name in server.answers)
        return 200, [one | {"default_branch": "main"} for one in listed]
    found = PROJECT.match(path)
    if not found:
        return NONE
    name, rest = unquote(found[1]), path.removeprefix(found[0])
    project = server.numbers[int(name) - 1] if name.isdecimal() and int(name) <= len(server.numbers) else name
    if unquote(rest) == "/repository/files/.copier-answers.yml/raw":
        text = server.answers[project]
        return NONE if text is None else (200, text)
    if found := re.fullmatch(r"/repository/commits/([0-9a-f]+)/statuses", rest):
        said = server.said(project, found[1])
        return 200, [{"id": n, "status": s, "allow_failure": False} for n, s in enumerate(said)]
    if found := re.fullmatch(r"/merge_requests/(\d+)/notes", rest):
        return server.comment(f"{project}/{found[1]}", body)
    found = re.fullmatch(r"/merge_requests(?:/(\d+))?", rest)
    return requests(server, method, project, found[1], query, body) if found else NONE


def requests(server: Server, method: str, project: str, number: str | None, query: Query, body: Any) -> tuple[int, Any]:
    """Return, open or change merge requests."""
    known = server.requests.setdefault(project, [])
    for request in known:
        if request["state"] == "opened":
            request["sha"] = server.head(project, request["source_branch"])
    if method == "POST":
        iid = len(known) + 1
        if any(r["source_branch"] == body["source_branch"] and r["state"] == "opened" for r in known):
            return 409, {"message": ["Another open merge request already exists for this source branch: !1"]}
        made = {"id": iid, "iid": iid, "state": "opened", "created_at": OPENED}
        made |= {"sha": server.head(project, body["source_branch"]), "source_project_id": server.number(project)}
        known.append(body | made | {"web_url": f"https://example.com/{project}/{iid}"})
        return 201, known[-1]
    if method == "PUT":
        state = {"close": "closed"}.get(body.pop("state_event", ""))
        known[int(number or 0) - 1].update(body | ({"state": state} if state else {}))
    if number:
        return 200, known[int(number) - 1]
    branch, wanted = query.get("source_branch", [""])[0], query.get("state", [""])[0]
    return 200, [r for r in known if branch in (r["source_branch"], "") and wanted in (r["state"], "")]
