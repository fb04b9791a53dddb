"""Stands in front of the registry: asks for a login, lets each account write where it may, fails where a test says.

docker-registry knows accounts, but no rights: every account may write everywhere. A company's registry gives one
account the right to push to staging and another that to push releases; so does this one.
"""

from __future__ import annotations

import base64
import http.client
import re
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WRITES = ("PUT", "POST", "PATCH", "DELETE")
DROPPED = ("connection", "transfer-encoding", "content-length", "keep-alive", "expect")


@dataclass
class Fault:
    """The next `times` requests of a method whose path matches get this status instead of an answer."""

    method: str
    path: str
    status: int
    times: int


class Gatekeeper(ThreadingHTTPServer):
    """Listens at a free port; `users` gives the password and the kind of each account: staging, release or reader."""

    daemon_threads = True

    def __init__(self, port: int, behind: int, users: dict[str, tuple[str, str]]) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.behind, self.users = behind, users
        self.faults: list[Fault] = []
        self.written: list[tuple[str, str, str]] = []  # account, method, path of every write that was let in
        self._turn = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def failing(self, method: str, path: str) -> int:
        """Return the status with which this request fails, 0 when it does not."""
        with self._turn:
            for fault in self.faults:
                if fault.times > 0 and fault.method == method and re.search(fault.path, path):
                    fault.times -= 1
                    return fault.status
        return 0


class _Handler(BaseHTTPRequestHandler):
    server: Gatekeeper
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _any(self) -> None:
        body = self._body()
        if not (account := self._account()):
            return self._answer(401, b"{}", {"WWW-Authenticate": 'Basic realm="test"'})
        if status := self.server.failing(self.command, self.path):
            code = {404: "MANIFEST_UNKNOWN", 503: "UNAVAILABLE"}.get(status, "UNKNOWN")
            return self._answer(status, f'{{"errors": [{{"code": "{code}", "message": "{code}"}}]}}'.encode(), {})
        if self.command in WRITES:
            place = "staging" if re.match(r"/v2/[^?]*-staging/", self.path) else "release"
            if self.server.users[account][1] != place:
                denied = b'{"errors": [{"code": "DENIED", "message": "requested access to the resource is denied"}]}'
                return self._answer(403, denied, {})
            self.server.written.append((account, self.command, self.path))
        self._forward(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = _any

    def _account(self) -> str:
        kind, _, word = self.headers.get("Authorization", "").partition(" ")
        if kind != "Basic":
            return ""
        name, _, password = base64.b64decode(word).decode().partition(":")
        known = self.server.users.get(name, ("", ""))[0]
        return name if known and known == password else ""

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _forward(self, body: bytes) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.behind)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for key, value in self.headers.items():  # a header may come more than once
                if key.lower() not in (*DROPPED, "authorization"):
                    connection.putheader(key, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            self._answer(answer.status, answer.read(), dict(answer.getheaders()), answer.getheader("Content-Length"))
        except OSError:
            self._answer(502, b"", {})
        finally:
            connection.close()

    def _answer(self, status: int, data: bytes, headers: dict[str, str], length: str | None = None) -> None:
        self.send_response(status)
        for key, value in headers.items():
            if key.lower() not in DROPPED:
                self.send_header(key, value)
        self.send_header("Content-Length", (length or "0") if self.command == "HEAD" else str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
