"""A container registry on the loopback: the part of OCI Distribution 1.1 that our tools use. farm.py adds accounts."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PATH = re.compile(r"/v2/(?P<name>.+)/(?P<kind>manifests|blobs/uploads|blobs|tags)/(?P<last>[^/]*)")


class Registry(ThreadingHTTPServer):
    """What the registry holds: blobs by repository and digest, manifests by repository and tag or digest."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.uploads: dict[str, bytes] = {}
        self.host = f"localhost:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=[0.02], daemon=True).start()

    def tags(self, name: str) -> dict[str, str]:
        """Return the tags of a repository with their digests."""
        found = {tag: body for (repository, tag), (_, body) in self.manifests.items() if repository == name}
        return {tag: digest_of(body) for tag, body in found.items() if ":" not in tag}

    def refusal(self, method: str, path: str, login: str) -> tuple[int, str] | None:
        """Return the status and the code with which a request is rejected. Here everybody may do everything."""
        return None


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Registry
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def send(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Send an answer; `Docker_Content_Digest` in `headers` is the header Docker-Content-Digest."""
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status: int, code: str) -> None:
        """Send an error as the specification words it."""
        body = {"errors": [{"code": code, "message": code.lower().replace("_", " ")}]}
        challenge = {"WWW_Authenticate": 'Basic realm="test"'} if status == 401 else {}
        self.send(status, json.dumps(body).encode(), Content_Type="application/json", **challenge)

    def body(self) -> bytes:
        """Read the request's body, in chunks or whole."""
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def answer(self) -> None:
        """Hand the request to the function for its method and kind."""
        body = self.body()
        if refusal := self.server.refusal(self.command, self.path, self.headers.get("Authorization", "")):
            return self.refuse(*refusal)
        if self.path == "/v2/":
            return self.send(200, b"{}")
        found = PATH.fullmatch(urlsplit(self.path).path)
        kinds = {"manifests": "manifest", "blobs": "blob", "blobs/uploads": "upload", "tags": "tags"}
        verb = {"GET": "get", "HEAD": "get"}.get(self.command, "put")
        function = getattr(self, f"{verb}_{kinds[found['kind']]}", None) if found else None
        if not found or not function:
            return self.refuse(404, "NOT_FOUND")
        function(found["name"], found["last"], body)

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = answer

    def put_upload(self, name: str, upload: str, body: bytes) -> None:
        """Start an upload (POST), add to it (PATCH) or finish it (PUT)."""
        uploads = self.server.uploads
        if self.command == "POST":
            upload = uuid.uuid4().hex
        content = uploads[upload] = uploads.get(upload, b"") + body
        if self.command != "PUT":
            place = f"/v2/{name}/blobs/uploads/{upload}"
            return self.send(202, Location=place, Range=f"0-{max(len(content) - 1, 0)}", Docker_Upload_UUID=upload)
        [digest] = parse_qs(urlsplit(self.path).query)["digest"]
        if digest_of(uploads.pop(upload)) != digest:
            return self.refuse(400, "DIGEST_INVALID")
        self.server.blobs[name, digest] = content
        self.send(201, Location=f"/v2/{name}/blobs/{digest}", Docker_Content_Digest=digest)

    def put_manifest(self, name: str, tag: str, body: bytes) -> None:
        """Keep a manifest whose parts are here."""
        manifest, digest = json.loads(body), digest_of(body)
        parts = [*manifest.get("layers", ()), *filter(None, [manifest.get("config")])]
        missing = [one for one in parts if (name, one["digest"]) not in self.server.blobs]
        missing += [one for one in manifest.get("manifests", ()) if (name, one["digest"]) not in self.server.manifests]
        if missing:
            return self.refuse(400, "MANIFEST_BLOB_UNKNOWN")
        for key in (tag, digest):
            self.server.manifests[name, key] = self.headers["Content-Type"], body
        self.send(201, Location=f"/v2/{name}/manifests/{digest}", Docker_Content_Digest=digest)

    def get_manifest(self, name: str, tag: str, _: bytes) -> None:
        """Send a manifest by its tag or digest."""
        if (name, tag) not in self.server.manifests:
            return self.refuse(404, "MANIFEST_UNKNOWN")
        kind, content = self.server.manifests[name, tag]
        self.send(200, content, Content_Type=kind, Docker_Content_Digest=digest_of(content))

    def get_tags(self, name: str, _: str, __: bytes) -> None:
        """Send the tags of a repository."""
        if not any(repository == name for repository, _ in self.server.manifests):
            return self.refuse(404, "NAME_UNKNOWN")
        tags = {"name": name, "tags": sorted(self.server.tags(name))}
        self.send(200, json.dumps(tags).encode(), Content_Type="application/json")

    def get_blob(self, name: str, digest: str, _: bytes) -> None:
        """Send a blob."""
        content = self.server.blobs.get((name, digest))
        if content is None:
            return self.refuse(404, "BLOB_UNKNOWN")
        self.send(200, content, Docker_Content_Digest=digest, Content_Type="application/octet-stream")


def digest_of(content: bytes) -> str:
    """Return the digest of a content as registries write it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
