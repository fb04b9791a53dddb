"""A fleet of bare repositories with every outcome, and a stand-in for the HTTP of GitHub and GitLab."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlparse

import yaml

from tests.updates.contract import answer_to, request_faults
from tests.updates.tiny import TEN_LINES, Child, Template, make_child

EDITS: dict[str, dict[str, str | None]] = {
    "clean": {"own.txt": "own\n", "a.txt": TEN_LINES + "owner's line\n"},
    "conflict": {"a.txt": "mine\n" + TEN_LINES},
    "risk": {"dropped.txt": TEN_LINES + "owner's line\n"},
    "red": {"test.sh": "exit 1\n"},
    "dirty": {".copier-answers.yml": "<<<<<<< HEAD\n"},
    "optout": {"b.txt": None},
}
EXPECTED = {
    "clean": "clean",
    "conflict": "conflict",
    "risk": "at risk",
    "red": "test failed",
    "dirty": "error",
    "optout": "clean",
}


SETTINGS = "_exclude: [copier.yml, CHANGELOG.md, .git]\n"
FIRST = {"a.txt": TEN_LINES, "b.txt": "b\n", "test.sh": "true\n", "dropped.txt": TEN_LINES}


def release_first(template: Template) -> None:
    """Release version 1.0.0 of a small template."""
    template.release("v1.0.0", FIRST, SETTINGS)


def release_second(template: Template) -> None:
    """Release version 2.0.0: a fix, a new file and a dropped one."""
    kept = {name: text for name, text in FIRST.items() if name != "dropped.txt"}
    changed = {"a.txt": "fixed\n" + TEN_LINES, "new.txt": "n\n", "CHANGELOG.md": "## 2.0.0\n\nA security fix.\n"}
    template.release("v2.0.0", kept | changed, SETTINGS)


def add_child(template: Template, folder: Path, name: str, edits: dict[str, str | None]) -> Path:
    """Make a child with `edits` and put it into the bare repository folder/remotes/acme/NAME.git."""
    (folder / "work").mkdir(exist_ok=True)
    child = make_child(template, folder / "work" / name, "--vcs-ref", "v1.0.0", edits=edits)
    bare = folder / "remotes" / "acme" / f"{name}.git"
    child.git("clone", "--quiet", "--bare", str(child.path), str(bare))
    return bare


def write_fleet(folder: Path, waves: dict[str, str], hosts: list[dict[str, str]] | None = None) -> Path:
    """Write fleet.yml for the children of `waves` (name to wave)."""
    url = f"file://{folder}/remotes/acme"
    children = [{"url": f"{url}/{name}.git", "wave": wave, "owner": "team"} for name, wave in waves.items()]
    (folder / "fleet.yml").write_text(yaml.safe_dump({"children": children, "hosts": hosts or []}))
    return folder / "fleet.yml"


def branches(bare: Path) -> dict[str, str]:
    """Return the branches of a remote and their commits."""
    listed = ["git", "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads"]
    lines = subprocess.run(listed, cwd=bare, check=True, capture_output=True, text=True).stdout.splitlines()
    return dict(line.split() for line in lines)  # type: ignore[misc]


def merge(bare: Path, branch: str, child: Child) -> None:
    """Merge a branch of a remote into main, as its owner would."""
    child.git("pull", "--quiet", "--no-rebase", "--no-ff", "--no-edit", str(bare), branch)
    child.git("push", "--quiet", str(bare), "HEAD:main")


@dataclass
class Server:
    """What the stand-in holds: requests by project, and each call that came in."""

    address: str = ""
    requests: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    token: str = "secret"
    answers: dict[str, str | None] = field(default_factory=dict)  # what the host lists: path -> .copier-answers.yml
    comments: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # by project and number of the request
    archived: set[str] = field(default_factory=set)
    checks: dict[str, list[str]] = field(default_factory=dict)  # what the pipeline of a project says
    troubles: list[tuple[int, dict[str, str], str]] = field(default_factory=list)  # given in place of the next answers
    after: list[str] = field(default_factory=list)  # methods whose next trouble comes after the work is done
    page: int = 100
    people: tuple[str, ...] = ()
    settings: dict[str, dict[str, bool]] = field(default_factory=dict)  # how a repository may be merged
    faults: list[str] = field(default_factory=list)  # what the host's published description does not allow


HEAD = "f" * 40  # the commit of every branch
OPENED = "2026-01-02T03:04:05Z"


def comment(server: Server, request: str, method: str, body: Any) -> tuple[int, Any]:
    """Answer with the comments of a request, or take one more."""
    known = server.comments.setdefault(request, [])
    if method == "GET":
        return 200, known
    known.append({"id": len(known) + 1, "body": body["body"], "created_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"})
    return 201, known[-1]


def github(server: Server, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
    """Answer as GitHub's REST interface does for organisations, repositories and pull requests."""
    if path == "/orgs/acme":
        return 200, {"login": "acme", "url": f"{server.address}/orgs/acme"}
    if path == "/orgs/acme/repos":
        return 200, [
            {"full_name": n, "archived": n in server.archived, "url": f"{server.address}/repos/{n}"}
            for n in server.answers
        ]
    if path.endswith("/contents/.copier-answers.yml"):
        text = server.answers.get(path.removeprefix("/repos/").removesuffix("/contents/.copier-answers.yml"))
        if text is None:
            return 404, {"message": "Not Found"}
        return 200, {"type": "file", "encoding": "base64", "content": base64.b64encode(text.encode()).decode()}
    if path == "/graphql":
        server.calls.append(("AUTOMERGE", body["variables"]["input"]["expectedHeadOid"]))
        return 200, {"data": {"enablePullRequestAutoMerge": {"actor": {"login": "bot"}}}}
    found = re.fullmatch(r"/repos/([^/]+/[^/]+)/commits/([0-9a-f]+)(/status|/check-runs)?", path)
    if found:
        said = server.checks.get(found[1], [])
        statuses = [state for state in said[:1] if state != "in_progress"]  # check runs are the rest
        if found[3] == "/status":
            return 200, {"state": "pending", "statuses": [{"state": state} for state in statuses]}
        runs = [
            {"check_suite": {}, "status": one, "conclusion": None}
            if one == "in_progress"
            else {"check_suite": {}, "status": "completed", "conclusion": one}
            for one in said[len(statuses) :]
        ]
        at = f"{server.address}/repos/{found[1]}/commits/{found[2]}"
        return 200, {"total_count": len(runs), "check_runs": runs} if found[3] else {"sha": found[2], "url": at}
    found = re.fullmatch(r"/repos/([^/]+/[^/]+)/pulls/(\d+)/(merge|requested_reviewers)", path)
    if found and found[3] == "merge":
        way = {"merge": "merge_commit"}.get(body.get("merge_method", "merge"), f"{body.get('merge_method')}_merge")
        if not server.settings.get(found[1], {}).get(f"allow_{way}", True):
            return 405, {"message": "Merge commits are not allowed on this repository."}
        server.requests[found[1]][int(found[2]) - 1].update(state="closed", merged_at=OPENED)
        return 200, {"merged": True, "sha": body["sha"], "message": "merged"}
    if found:
        asked = [*body.get("reviewers", []), *body.get("team_reviewers", [])]
        if not set(asked) <= set(server.people) and "reviewers" in body:
            return 422, {"message": "Reviews may only be requested from collaborators."}
        server.requests[found[1]][int(found[2]) - 1]["asked"] = body
        return 201, server.requests[found[1]][int(found[2]) - 1]
    if found := re.fullmatch(r"/repos/([^/]+/[^/]+)/issues/(\d+)/comments", path):
        return comment(server, f"{found[1]}/{found[2]}", method, body)
    found = re.fullmatch(r"/repos/([^/]+/[^/]+)(/pulls)?(?:/(\d+))?", path)
    if not found:
        return 404, {"message": "Not Found"}
    project, pulls, number = found.groups()
    known = server.requests.setdefault(project, [])
    if not pulls:
        at = {"url": f"{server.address}/repos/{project}", "archived": project in server.archived}
        return 200, {"full_name": project, "name": project.split("/")[1]} | at | server.settings.get(project, {})
    if method == "POST":
        if any(pull["head"]["ref"] == body["head"] and pull["state"] == "open" for pull in known):
            return 422, {"message": "Validation Failed", "errors": [{"message": "A pull request already exists"}]}
        pull = body | {
            "head": {"ref": body["head"], "sha": HEAD},
            "base": {"ref": body["base"]},
            "node_id": f"node{len(known) + 1}",
            "created_at": OPENED,
            "number": len(known) + 1,
            "state": "open",
            "merged_at": None,
            "requested_reviewers": [],
            "html_url": f"https://example.com/{project}/{len(known) + 1}",
        }
        place, issue = (f"{server.address}/repos/{project}/{kind}/{pull['number']}" for kind in ("pulls", "issues"))
        known.append(pull | {"url": place, "issue_url": issue})
        return 201, known[-1]
    if method == "PATCH":
        known[int(number) - 1].update(body)
        return 200, known[int(number) - 1]
    if number:
        return 200, known[int(number) - 1]
    head, state = query.get("head", [""])[0].partition(":")[2], query["state"][0]
    return 200, [pull for pull in known if state in (pull["state"], "all") and head in (pull["head"]["ref"], "")]


def gitlab(server: Server, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
    """Answer as GitLab's REST interface does for groups, files and merge requests."""
    names = list(server.answers)
    if path == "/api/v4/groups/acme/projects":
        return 200, [
            {"id": number, "path_with_namespace": name, "default_branch": "main"}
            for number, name in enumerate(names)
            if name not in server.archived
        ]
    if (file := re.fullmatch(r"/api/v4/projects/(\d+)/repository/files/(.+)/raw", path)) and file[1].isdigit():
        text = server.answers[names[int(file[1])]]
        assert unquote(file[2]) == ".copier-answers.yml"
        return (404, {"message": "404 File Not Found"}) if text is None else (200, text)
    if path == "/api/v4/users":
        return 200, [{"id": 7, "username": name} for name in server.people if name == query["username"][0]]
    if found := re.fullmatch(r"/api/v4/projects/([^/]+)/repository/commits/[0-9a-f]+/statuses", path):
        said = server.checks.get(unquote(found[1]), [])
        return 200, [{"id": n, "status": s, "allow_failure": False} for n, s in enumerate(said)]
    if found := re.fullmatch(r"/api/v4/projects/([^/]+)/merge_requests/(\d+)/merge", path):
        merged = server.requests[unquote(found[1])][int(found[2]) - 1]
        if body.get("auto_merge"):
            server.calls.append(("AUTOMERGE", body["sha"]))
        else:
            merged.update(state="merged", merged_at=OPENED)
        return 200, merged
    if found := re.fullmatch(r"/api/v4/projects/([^/]+)/merge_requests/(\d+)/notes", path):
        return comment(server, f"{unquote(found[1])}/{found[2]}", method, body)
    found = re.fullmatch(r"/api/v4/projects/([^/]+)/merge_requests(?:/(\d+))?", path)
    if not found:
        return 404, {"message": "404 Not found"}
    project, number = unquote(found[1]), found[2]
    known = server.requests.setdefault(project, [])
    if method == "POST":
        iid = len(known) + 1
        if any(r["source_branch"] == body["source_branch"] and r["state"] == "opened" for r in known):
            return 409, {"message": ["Another open merge request already exists for this source branch: !1"]}
        body |= {"sha": HEAD, "created_at": OPENED}
        known.append(
            body | {"id": iid, "iid": iid, "state": "opened", "web_url": f"https://example.com/{project}/{iid}"}
        )
        return 201, known[-1]
    if method == "PUT":
        state = {"close": "closed"}.get(body.pop("state_event", ""))
        known[int(number) - 1].update(body | ({"state": state} if state else {}))
        return 200, known[int(number) - 1]
    branch, wanted = query.get("source_branch", [""])[0], query.get("state", [""])[0]
    return 200, [r for r in known if branch in (r["source_branch"], "") and wanted in (r["state"], "")]


def ask_without_pauses() -> None:
    """Let PyGithub ask in this process as fast as it can: a stand-in needs no rest, of which it gives hosts seconds."""
    from github.Requester import Requester

    setattr(Requester, "_Requester__deferRequest", lambda self, verb: None)  # noqa: B010  (its name is private)


@contextmanager
def serve(kind: str) -> Iterator[Server]:
    """Run the stand-in for "github" or "gitlab" on a free port; client and stand-in must keep to what it publishes."""
    ask_without_pauses()
    state = Server()
    respond = {"github": github, "gitlab": gitlab}[kind]

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            place = urlparse(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or "null")
            state.calls.append((self.command, place.path))
            state.faults += request_faults(kind, self.command, place.path, parse_qs(place.query), body)
            trouble = state.troubles.pop(0) if state.troubles else None
            if trouble and self.command not in state.after:
                self.answer(*trouble)
                return
            given = self.headers.get("Authorization", "") + self.headers.get("PRIVATE-TOKEN", "")
            if state.token not in given:
                code, answer = 401, {"message": "401 Unauthorized"}
            else:
                code, answer = respond(state, self.command, place.path, parse_qs(place.query), body)
                answer, faults = answer_to(kind, self.command, place.path, code, answer)
                state.faults += faults
            if trouble:
                self.answer(*trouble)
                return
            headers = {}
            if isinstance(answer, list):
                number, size = int(parse_qs(place.query).get("page", ["1"])[0]), state.page
                if answer[number * size :]:
                    query = parse_qs(place.query) | {"page": [str(number + 1)]}
                    headers["Link"] = f'<{state.address}{place.path}?{urlencode(query, doseq=True)}>; rel="next"'
                answer = answer[(number - 1) * size : number * size]
            self.answer(code, headers, answer if isinstance(answer, str) else json.dumps(answer))

        def answer(self, code: int, headers: dict[str, str], text: str) -> None:
            self.send_response(code)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_PATCH = do_PUT = handle_any

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
        assert not state.faults, f"{kind}: {sorted(set(state.faults))}"
    finally:
        server.shutdown()
        server.server_close()
