"""An object store that speaks as much of S3 as pyarrow asks for and keeps what it was asked."""

from __future__ import annotations

import hashlib
import io
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"


@dataclass
class Objects:
    """The objects of one bucket by key: (content, time in s). asked: (method, key) of each request."""

    port: int = 0
    there: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    after: Callable[[str, str], None] = lambda method, key: None

    def put(self, key: str, content: bytes, at: float | None = None) -> None:
        """Store an object."""
        self.there[key] = (content, time.time() if at is None else at)

    def uri(self, key: str) -> str:
        """Return the address of an object or of a folder for pyarrow."""
        options = f"scheme=http&endpoint_override=127.0.0.1:{self.port}&region=us-east-1"
        return f"s3://anyone:anything@{BUCKET}/{key}?{options}"

    def public_uri(self, key: str) -> str:
        """Return it without the login, which is in the environment then."""
        return self.uri(key).replace("anyone:anything@", "")

    def times_asked(self, key: str) -> int:
        """Return how many requests were made for one object."""
        return sum(of == key for _, of in self.asked)


def tag(content: bytes) -> str:
    """Return the ETag of a content."""
    return f'"{hashlib.md5(content).hexdigest()}"'


@contextmanager
def object_store() -> Iterator[Objects]:
    """Serve an empty bucket on a free port."""
    objects = Objects()
    handler = type("Handler", (_Handler,), {"objects": objects})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        objects.port = server.server_address[1]
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield objects
        server.shutdown()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: Objects

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        _, _, key = unquote(parts.path).lstrip("/").partition("/")
        query = parse_qs(parts.query, keep_blank_values=True)
        body = self._body()
        self.objects.asked.append((self.command, key))
        status, headers, content = self._answer(key, query, body)
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        self.objects.after(self.command, key)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle

    def _body(self) -> bytes:
        """Return what was sent: at once, in chunks of HTTP, or in those of AWS, which end with a checksum."""
        whole = self.headers.get("Transfer-Encoding") == "chunked"
        raw = _chunks(self.rfile) if whole else self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return _chunks(io.BytesIO(raw)) if "aws-chunked" in (self.headers.get("Content-Encoding") or "") else raw

    def _answer(self, key: str, query: dict[str, list[str]], body: bytes) -> tuple[int, dict[str, str], bytes]:
        there = self.objects.there
        if not key:
            return (200, {}, self._listed(query)) if self.command == "GET" else (200, {}, b"")
        if self.command == "DELETE":
            there.pop(key, None)
            return 204, {}, b""
        if self.command in ("PUT", "POST"):
            return self._stored(key, query, body)
        if key not in there:
            return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        content, modified = there[key]
        known = {"ETag": tag(content), "Last-Modified": formatdate(modified, usegmt=True)}
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        if self.command == "HEAD" or not asked:
            return 200, known | {"Content-Length": str(len(content))}, content
        begin, end = int(asked[1]), min(int(asked[2]), len(content) - 1)
        return 206, known | {"Content-Range": f"bytes {begin}-{end}/{len(content)}"}, content[begin : end + 1]

    def _stored(self, key: str, query: dict[str, list[str]], body: bytes) -> tuple[int, dict[str, str], bytes]:
        uploads = self.objects.uploads
        if "uploads" in query:
            name = f"upload-{len(uploads)}"
            uploads[name] = {}
            answer = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            return 200, {}, answer.encode()
        if "uploadId" in query and self.command == "PUT":
            uploads[query["uploadId"][0]][int(query["partNumber"][0])] = body
            return 200, {"ETag": tag(body)}, b""
        if "uploadId" in query:
            body = b"".join(part for _, part in sorted(uploads.pop(query["uploadId"][0]).items()))
            self.objects.put(key, body)
            answer = f"<CompleteMultipartUploadResult><ETag>{tag(body)}</ETag></CompleteMultipartUploadResult>"
            return 200, {}, answer.encode()
        self.objects.put(key, body)
        return 200, {"ETag": tag(body)}, b""

    def _listed(self, query: dict[str, list[str]]) -> bytes:
        prefix, between = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        found, folders = [], set()
        for key, (content, modified) in sorted(self.objects.there.items()):
            if not key.startswith(prefix):
                continue
            head, mark, _ = key[len(prefix) :].partition(between) if between else ("", "", "")
            if mark:
                folders.add(prefix + head + mark)
                continue
            # With the fractions of a second that HEAD has not.
            at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(modified)) + f".{int(modified * 1000) % 1000:03d}Z"
            own = f"<Key>{escape(key)}</Key><LastModified>{at}</LastModified><Size>{len(content)}</Size>"
            found.append(f"<Contents>{own}<ETag>{escape(tag(content))}</ETag></Contents>")
        found += [f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in sorted(folders)]
        count = f"<KeyCount>{len(found)}</KeyCount><IsTruncated>false</IsTruncated>"
        return f"<ListBucketResult><Prefix>{escape(prefix)}</Prefix>{count}{''.join(found)}</ListBucketResult>".encode()


def _chunks(stream: BinaryIO) -> bytes:
    found = b""
    while length := int(stream.readline().partition(b";")[0], 16):
        found += stream.read(length)
        stream.readline()
    while stream.readline().strip():
        continue
    return found
