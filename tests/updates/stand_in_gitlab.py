"""What GitLab answers: groups, projects, files and merge requests."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from tests.updates.code_host import OPENED, Server

Query = dict[str, list[str]]
PROJECT = re.compile(r"/api/v4/projects/([^/]+)")


def project_in(server: Server, path: str) -> str:
    """Return the project that a path names, by its number too; nothing where it names none."""
    found = PROJECT.match(path)
    name = unquote(found[1]) if found else ""
    return server.numbers[int(name) - 1] if name.isdecimal() and int(name) <= len(server.numbers) else name


def moved(server: Server, method: str, path: str, old: str) -> tuple[int, dict[str, str], Any]:
    """Answer for a project that is elsewhere by now."""
    if method != "GET":
        return 405, {}, {"message": "405 Non GET methods are not allowed for moved projects"}
    there = server.address + PROJECT.sub(f"/api/v4/projects/{server.number(server.moved[old])}", path)
    return 302, {"Location": there}, {"message": f"This resource has been moved temporarily to {there}."}


def answer(server: Server, method: str, path: str, query: Query, body: Any) -> tuple[int, Any]:
    """Answer as GitLab's REST interface does."""
    if path == "/api/v4/groups/acme/projects":
        return 200, [
            {"id": server.number(name), "path_with_namespace": name, "default_branch": "main"}
            for name in server.answers
            if name not in server.archived
        ]
    if path == "/api/v4/users":
        return 200, [{"id": 7, "username": name} for name in server.people if name == query["username"][0]]
    project = project_in(server, path)
    if not project:
        return 404, {"message": "404 Not found"}
    rest = PROJECT.sub("", path)
    if method != "GET" and project in server.read_only:
        return 403, {"message": "403 Forbidden"}
    if not rest:
        branch = server.default_branch(project)
        known = {"path_with_namespace": project, "default_branch": branch, "archived": project in server.archived}
        return 200, {"id": server.number(project)} | known
    if found := re.fullmatch(r"/repository/files/(.+)/raw", rest):
        if project in server.odd_files:
            code, _, told = server.odd_files[project]
            return code, told
        text = server.answers[project]
        assert unquote(found[1]) == ".copier-answers.yml"
        return (404, {"message": "404 File Not Found"}) if text is None else (200, text)
    if found := re.fullmatch(r"/repository/commits/([0-9a-f]+)/statuses", rest):
        said = server.said(project, found[1])
        return 200, [{"id": n, "status": s, "allow_failure": False} for n, s in enumerate(said)]
    if found := re.fullmatch(r"/merge_requests/(\d+)/merge", rest):
        return merged(server, project, server.requests[project][int(found[1]) - 1], body)
    if found := re.fullmatch(r"/merge_requests/(\d+)/notes", rest):
        return server.comment(f"{project}/{found[1]}", method, body)
    found = re.fullmatch(r"/merge_requests(?:/(\d+))?", rest)
    return requests(server, method, project, found[1], query, body) if found else (404, {"message": "404 Not found"})


def merged(server: Server, project: str, request: dict[str, Any], body: Any) -> tuple[int, Any]:
    """Merge a request, now or once it is green."""
    if request["title"].startswith("Draft:"):
        return 405, {"message": "405 Method Not Allowed"}
    if body["sha"] != server.head(project, request["source_branch"]):
        return 409, {"message": "SHA does not match HEAD of source branch"}
    if body.get("auto_merge"):
        server.calls.append(("AUTOMERGE", body["sha"]))
        request["auto"] = True
        return 200, request
    if project in server.protected:
        return 401, {"message": "401 Unauthorized"}
    server.merge(project, request, "merge")
    request.update(state="merged", merged_at=OPENED)
    return 200, request


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
        at = {"sha": server.head(project, body["source_branch"]), "created_at": OPENED}
        at |= {
            "source_project_id": server.number(project),
            "id": iid,
            "iid": iid,
            "state": "opened",
            "web_url": f"https://example.com/{project}/{iid}",
        }
        known.append(body | at)
        return 201, known[-1]
    if method == "PUT":
        state = {"close": "closed"}.get(body.pop("state_event", ""))
        known[int(number or 0) - 1].update(body | ({"state": state} if state else {}))
    if number:
        pipeline = server.pipelines.get(project)
        more = {"head_pipeline": {"id": 1, "status": pipeline} if pipeline else None}
        return 200, known[int(number) - 1] | more
    branch, wanted = query.get("source_branch", [""])[0], query.get("state", [""])[0]
    return 200, [r for r in known if branch in (r["source_branch"], "") and wanted in (r["state"], "")]
