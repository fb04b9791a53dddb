"""A stand-in for the HTTP of GitHub and GitLab over bare repositories; what their REST APIs do not have is a fault.

Its operations, parameters and fields were compared on 2026-11-28 with GitHub's OpenAPI description (npm:
@octokit/openapi 23.0.2) and the pages of docs.gitlab.com/api.
"""

import base64
import json
import socket
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import PlainTextResponse
from gpu_repo_runtime.update.render import ANSWERS

Json = dict[str, Any]


@dataclass
class Pull:
    """A pull or merge request."""

    project: str
    number: int
    branch: str
    base: str
    title: str
    text: str
    draft: bool
    state: str = "open"
    comments: list[str] = field(default_factory=list)


@dataclass
class Server:
    """A code host with the repositories FOLDER/OWNER/NAME.git, and what came in."""

    folder: Path
    token: str
    address: str = ""
    pulls: dict[str, list[Pull]] = field(default_factory=lambda: defaultdict(list))  # by project
    answers: dict[str, str | None] = field(default_factory=dict)  # the projects that the host lists, with their answers
    checks: dict[str, list[str]] = field(default_factory=dict)  # what the pipeline of a project, or a commit, reports
    tokens: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def head(self, pull: Pull) -> str:
        """Return the commit of a request's branch, "" where it is gone."""
        command = ["git", "for-each-ref", "--format=%(objectname)", f"refs/heads/{pull.branch}"]
        place = self.folder / f"{pull.project}.git"
        return subprocess.run(command, cwd=place, check=True, capture_output=True, text=True).stdout.strip()

    def is_mergeable(self, pull: Pull) -> bool:
        """Tell whether a request's branch merges into the default branch."""
        command = ["git", "merge-tree", "--write-tree", "HEAD", self.head(pull)]
        return subprocess.run(command, cwd=self.folder / f"{pull.project}.git", capture_output=True).returncode == 0

    def open(self, project: str, branch: str, base: str, title: str, text: str, draft: bool = False) -> Pull:
        """Open a request, the only one of its branch."""
        known = self.pulls[project]
        if any((one.branch, one.state) == (branch, "open") for one in known):
            raise HTTPException(409, f"{branch} has an open request already")
        known.append(Pull(project, len(known) + 1, branch, base, title, text, draft))
        return known[-1]

    def listed(self, project: str, branch: str, state: str) -> list[Pull]:
        """Return the requests of a branch and in a state, or of all where these are empty."""
        return [one for one in self.pulls[project] if branch in (one.branch, "") and state in (one.state, "")]

    def reported(self, project: str, commit: str) -> list[str]:
        """Return what the pipeline reports about a commit."""
        return self.checks.get(commit, self.checks.get(project, []))


def known(names: str) -> Any:
    """Return a dependency: the parameters and the body of a request, in which other fields are faults."""

    async def read(request: Request) -> Json:
        given = dict(request.query_params) | json.loads(await request.body() or "{}")
        unknown = sorted(given.keys() - set(names.split()))
        request.app.state.faults += [f"{request.method} {request.url.path}: {name} is unknown" for name in unknown]
        return given

    return Depends(read)


PAGES = "page per_page sort direction order_by "


def github(server: Server) -> APIRouter:
    """Return GitHub's operations."""
    api = APIRouter()
    repository = "/repos/{owner}/{name}"

    def shown(pull: Pull) -> Json:
        owner, at = pull.project.split("/")[0], f"{server.address}/repos/{pull.project}"
        head = {"label": f"{owner}:{pull.branch}", "ref": pull.branch, "sha": server.head(pull)}
        places = {"url": f"{at}/pulls/{pull.number}", "issue_url": f"{at}/issues/{pull.number}"}
        places["html_url"] = f"https://example.com/{pull.project}/{pull.number}"
        known = {"number": pull.number, "node_id": f"{pull.project}#{pull.number}", "state": pull.state}
        text = {"title": pull.title, "body": pull.text, "draft": pull.draft, "mergeable": server.is_mergeable(pull)}
        return places | known | text | {"head": head, "base": {"ref": pull.base}, "merged_at": None}

    @api.get("/orgs/acme")
    def organisation() -> Json:
        return {"login": "acme", "url": f"{server.address}/orgs/acme"}

    @api.get("/orgs/acme/repos")
    def repositories(_: Annotated[Json, known(PAGES + "type")]) -> list[Json]:
        return [{"full_name": name, "url": f"{server.address}/repos/{name}", "archived": False, "fork": False}
                for name in server.answers]  # fmt: skip

    @api.get(f"{repository}/contents/{ANSWERS}")
    def contents(owner: str, name: str) -> Json:
        if (text := server.answers[f"{owner}/{name}"]) is None:
            raise HTTPException(404)
        return {"type": "file", "encoding": "base64", "content": base64.b64encode(text.encode()).decode()}

    @api.get(f"{repository}/commits/{{commit}}")
    def commits(owner: str, name: str, commit: str) -> Json:
        return {"sha": commit, "url": f"{server.address}/repos/{owner}/{name}/commits/{commit}"}

    @api.get(f"{repository}/commits/{{commit}}/status")
    def statuses(owner: str, name: str, commit: str, _: Annotated[Json, known(PAGES)]) -> Json:
        states = [{"context": "old", "state": one} for one in server.reported(f"{owner}/{name}", commit)]
        return {"state": "pending", "total_count": len(states), "statuses": states}

    @api.get(f"{repository}/commits/{{commit}}/check-runs")
    def check_runs(owner: str, name: str, commit: str, _: Annotated[Json, known(PAGES)]) -> Json:
        reported = server.reported(f"{owner}/{name}", commit)
        runs = [{"name": "new", "status": "completed", "conclusion": one} for one in reported]
        return {"total_count": len(runs), "check_runs": runs}

    @api.get(f"{repository}/pulls")
    def pulls(owner: str, name: str, wanted: Annotated[Json, known(PAGES + "state head base")]) -> list[Json]:
        state, branch = {"all": ""}.get(wanted["state"], wanted["state"]), wanted.get("head", "").partition(":")[2]
        return [shown(one) for one in server.listed(f"{owner}/{name}", branch, state)]

    @api.post(f"{repository}/pulls", status_code=201)
    def new_pull(owner: str, name: str, wish: Annotated[Json, known("title head base body draft")]) -> Json:
        text = {"title": wish["title"], "text": wish["body"], "draft": wish["draft"]}
        return shown(server.open(f"{owner}/{name}", wish["head"], wish["base"], **text))

    @api.get(f"{repository}/pulls/{{number}}")
    def pull(owner: str, name: str, number: int) -> Json:
        return shown(server.pulls[f"{owner}/{name}"][number - 1])

    @api.patch(f"{repository}/pulls/{{number}}")
    def change(owner: str, name: str, number: int, wish: Annotated[Json, known("title body state base")]) -> Json:
        one = server.pulls[f"{owner}/{name}"][number - 1]
        one.title, one.text = wish.get("title", one.title), wish.get("body", one.text)
        one.state = wish.get("state", one.state)
        return shown(one)

    @api.post(f"{repository}/issues/{{number}}/comments", status_code=201)
    def comment(owner: str, name: str, number: int, wish: Annotated[Json, known("body")]) -> Json:
        server.pulls[f"{owner}/{name}"][number - 1].comments.append(wish["body"])
        return {"id": 1, "body": wish["body"]}

    @api.post("/graphql")
    def graphql(wish: Annotated[Json, known("query variables")]) -> Json:
        """Make an open pull request a draft, or ready: REST has no operation for it."""
        project, number = wish["variables"]["input"]["pullRequestId"].split("#")
        one = server.pulls[project][int(number) - 1]
        one.draft = "convertPullRequestToDraft" in wish["query"]
        name = "convertPullRequestToDraft" if one.draft else "markPullRequestReadyForReview"
        return {"data": {name: {"clientMutationId": None, "pullRequest": {"isDraft": one.draft}}}}

    return api


def gitlab(server: Server) -> APIRouter:
    """Return GitLab's operations."""
    api = APIRouter(prefix="/api/v4")
    project = "/projects/{project:path}"

    def shown(pull: Pull) -> Json:
        known = {"id": pull.number, "iid": pull.number, "state": {"open": "opened"}.get(pull.state, pull.state)}
        branches = {"source_branch": pull.branch, "target_branch": pull.base, "sha": server.head(pull)}
        text = {"title": pull.title, "description": pull.text, "has_conflicts": not server.is_mergeable(pull)}
        places = {"source_project_id": 1, "web_url": f"https://example.com/{pull.project}/{pull.number}"}
        return known | branches | text | places

    @api.get("/groups/acme/projects")
    def projects(_: Annotated[Json, known(PAGES + "archived include_subgroups")]) -> list[Json]:
        return [{"id": number, "path_with_namespace": name, "default_branch": "main"}
                for number, name in enumerate(server.answers)]  # fmt: skip

    @api.get(f"/projects/{{number}}/repository/files/{ANSWERS}/raw")
    def raw(number: int, _: Annotated[Json, known("ref")]) -> PlainTextResponse:
        if (text := [*server.answers.values()][number]) is None:
            raise HTTPException(404)
        return PlainTextResponse(text)

    @api.get(f"{project}/repository/commits/{{commit}}/statuses")
    def statuses(project: str, commit: str, _: Annotated[Json, known(PAGES + "ref all")]) -> list[Json]:
        reported = server.reported(project, commit)
        return [{"id": 1, "name": "test", "status": one, "allow_failure": False} for one in reported]

    @api.get(f"{project}/merge_requests")
    def merges(project: str, wanted: Annotated[Json, known(PAGES + "state source_branch")]) -> list[Json]:
        state = {"opened": "open"}.get(wanted.get("state", ""), "")
        return [shown(one) for one in server.listed(project, wanted.get("source_branch", ""), state)]

    @api.post(f"{project}/merge_requests", status_code=201)
    def new_merge(project: str, wish: Annotated[Json, known("source_branch target_branch title description")]) -> Json:
        text = {"title": wish["title"], "text": wish["description"], "draft": wish["title"].startswith("Draft: ")}
        return shown(server.open(project, wish["source_branch"], wish["target_branch"], **text))

    @api.get(f"{project}/merge_requests/{{number}}")
    def merge(project: str, number: int) -> Json:
        return shown(server.pulls[project][number - 1])

    @api.put(f"{project}/merge_requests/{{number}}")
    def change(project: str, number: int, wish: Annotated[Json, known("title description state_event")]) -> Json:
        one = server.pulls[project][number - 1]
        one.title, one.text = wish.get("title", one.title), wish.get("description", one.text)
        one.draft, one.state = one.title.startswith("Draft: "), "closed" if "state_event" in wish else one.state
        return shown(one)

    @api.post(f"{project}/merge_requests/{{number}}/notes", status_code=201)
    def note(project: str, number: int, wish: Annotated[Json, known("body")]) -> Json:
        server.pulls[project][number - 1].comments.append(wish["body"])
        return {"id": 1, "body": wish["body"]}

    return api


@contextmanager
def serve(kind: str, folder: Path, token: str) -> Iterator[Server]:
    """Run the stand-in for "github" or "gitlab" on a free port, for the bare repositories FOLDER/OWNER/NAME.git."""
    server = Server(folder, token)

    def check_token(request: Request) -> None:
        given = request.headers.get("Authorization", "") + request.headers.get("PRIVATE-TOKEN", "")
        server.tokens.append(given)
        if token not in given:
            raise HTTPException(401, "401 Unauthorized")

    app = FastAPI(dependencies=[Depends(check_token)])
    app.state.faults = server.faults
    app.include_router({"github": github, "gitlab": gitlab}[kind](server))

    @app.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    def unknown(request: Request, path: str) -> None:
        server.faults.append(f"{request.method} /{path} is not an operation that the tests know")
        raise HTTPException(404)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server.address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        http = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=http.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield server
            assert not server.faults, f"{kind}: {sorted(set(server.faults))}"
        finally:
            http.should_exit = True
            thread.join()
