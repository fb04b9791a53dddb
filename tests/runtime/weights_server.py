"""An HTTP server with files, as much of Hugging Face's hub as its client asks for, and faults of networks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
REPOSITORY = "owner/encoder"


@dataclass
class Files:
    """What is served, by path. asked: (path, Authorization).

    cuts: after so many bytes a transfer of this path breaks off, once for each number.
    busy: so many answers are 503. moved: paths that another server has. opens: what Authorization has to be.
    headers: more of them, by path.
    """

    there: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    cuts: dict[str, list[int]] = field(default_factory=dict)
    busy: int = 0
    moved: dict[str, str] = field(default_factory=dict)
    opens: str = ""
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    port: int = 0

    @property
    def address(self) -> str:
        """Return where it is."""
        return f"http://127.0.0.1:{self.port}"

    def publish(self, files: dict[str, bytes]) -> None:
        """Be a hub with one repository."""
        rows: list[dict[str, Any]] = [{"type": "directory", "path": "onnx", "size": 0, "oid": "0" * 40}]
        for path, content in files.items():
            blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
            row: dict[str, Any] = {"type": "file", "path": path, "size": len(content), "oid": blob}
            if len(content) > 100:
                large = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
                row |= {"lfs": large}
            rows.append(row)
            self.there[f"/{REPOSITORY}/resolve/{COMMIT}/{path}"] = content
        tree = f"/api/models/{REPOSITORY}/tree/{COMMIT}"
        self.there[tree] = json.dumps(rows[:2]).encode()
        self.there[f"{tree}/rest"] = json.dumps(rows[2:]).encode()
        about = {"id": REPOSITORY, "sha": COMMIT, "siblings": [{"rfilename": path} for path in files]}
        for name in ("main", COMMIT):
            self.there[f"/api/models/{REPOSITORY}/revision/{name}"] = json.dumps(about).encode()

    def times(self, path: str) -> int:
        """Return how often a path was requested."""
        return [of for of, _ in self.asked].count(path)


@contextmanager
def serving(**options: Any) -> Iterator[Files]:
    """Serve files on a free port."""
    files = Files(**options)
    handler = type("Handler", (_Handler,), {"files": files})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        files.port = server.server_address[1]
        thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield files
        server.shutdown()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    files: Files

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Give a file."""
        files, path = self.files, unquote(urlsplit(self.path).path)
        login = self.headers.get("Authorization") or ""
        files.asked.append((path, login))
        if files.busy:
            files.busy -= 1
            return self._answer(503, {}, b"")
        if files.opens and login != files.opens:
            return self._answer(401, {}, b"")
        if path in files.moved:
            return self._answer(302, {"Location": files.moved[path]}, b"")
        if path not in files.there:
            return self._answer(404, {}, b"")
        content = files.there[path]
        headers = {"X-Repo-Commit": COMMIT, **files.headers.get(path, {})}
        if f"{path}/rest" in files.there:
            headers["Link"] = f'<{files.address}{path}/rest>; rel="next"'
        return self._answer(200, headers, content)

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        path = unquote(urlsplit(self.path).path)
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        cuts = self.files.cuts.get(path, []) if status == 200 else []
        if cuts:
            self.wfile.write(content[: cuts.pop(0)])
            self.close_connection = True
        else:
            self.wfile.write(content)
