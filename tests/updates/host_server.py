"""The stand-in for the HTTP of GitHub and GitLab; client and stand-in must keep to what the host publishes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlparse

from tests.updates import stand_in_github, stand_in_gitlab
from tests.updates.code_host import Server, Trouble
from tests.updates.contract import answer_to, request_faults

KINDS = {"github": stand_in_github, "gitlab": stand_in_gitlab}


def trouble_of(state: Server, project: str, method: str) -> Trouble | None:
    """Return what is answered in place of the work, if anything is."""
    if method == "PUT" and state.puts:
        return state.puts.pop(0)
    if state.troubles:
        return state.troubles.pop(0)
    mood = state.moods.get(project)
    return mood.pop(0) if mood else None


@contextmanager
def serve(kind: str) -> Iterator[Server]:
    """Run the stand-in for "github" or "gitlab" on a free port."""
    state, host = Server(), KINDS[kind]

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            place = urlparse(self.path)
            query = parse_qs(place.query)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or "null")
            state.calls.append((self.command, place.path))
            given = self.headers.get("Authorization", "") + self.headers.get("PRIVATE-TOKEN", "")
            state.tokens += [given] if given else []
            state.faults += request_faults(kind, self.command, place.path, query, body)
            project = host.project_in(state, place.path)
            trouble = trouble_of(state, project, self.command)
            if trouble and self.command not in state.after:
                self.answer(*trouble)
                return
            headers: dict[str, str] = {}
            if state.token not in given:
                code, answer = 401, {"message": "401 Unauthorized"}
            elif project in state.moved:
                code, headers, answer = host.moved(state, self.command, place.path, project)
            else:
                code, answer = host.answer(state, self.command, place.path, query, body)
                answer, faults = answer_to(kind, self.command, place.path, code, answer)
                state.faults += faults
            if trouble:
                self.answer(*trouble)
                return
            if isinstance(answer, list):
                answer = self.page(place.path, query, answer, headers)
            self.answer(code, headers, answer if isinstance(answer, str) else json.dumps(answer))

        def page(self, path: str, query: dict[str, list[str]], answer: list[Any], headers: dict[str, str]) -> list[Any]:
            number, size = int(query.get("page", ["1"])[0]), state.page
            if answer[number * size :]:
                more = urlencode(query | {"page": [str(number + 1)]}, doseq=True)
                headers["Link"] = f'<{state.address}{path}?{more}>; rel="next"'
            return answer[(number - 1) * size : number * size]

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
