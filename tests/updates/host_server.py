"""The stand-in for the HTTP of GitHub and GitLab; client and stand-in must keep to what the host publishes."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

from tests.updates import stand_in_github, stand_in_gitlab
from tests.updates.code_host import Server
from tests.updates.contract import answer_faults, request_faults

KINDS = {"github": stand_in_github, "gitlab": stand_in_gitlab}


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
            given = self.headers.get("Authorization", "") + self.headers.get("PRIVATE-TOKEN", "")
            state.tokens += [given] if given else []
            state.faults += request_faults(kind, self.command, place.path, query, body)
            code, answer = 401, {"message": "401 Unauthorized"}
            if state.token in given:
                code, answer = host.answer(state, self.command, place.path, query, body)
                state.faults += answer_faults(kind, self.command, place.path, code, answer)
            self.answer(code, answer if isinstance(answer, str) else json.dumps(answer))

        def answer(self, code: int, text: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
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
