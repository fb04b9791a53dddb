"""A registry of images, as far as weights need it: blobs in pieces, manifests, and a login.

REGISTRY_USER and REGISTRY_PASSWORD log in, else what `docker login` left in a file, or with the program that keeps it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin

from .home import in_home
from .problems import AWAY, WRONG_USE, Interrupted, WeightsError
from .sources import web

_REFERENCE = re.compile(
    r"(?P<host>\w[\w.-]*(:\d+)?)/(?P<name>[a-z0-9]+([._/-]+[a-z0-9]+)*)(:(?P<tag>[\w.-]{1,128}))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_HUB = {"docker.io": ("https://index.docker.io/v1/",)}
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_MANIFESTS = (
    MANIFEST,
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)


def split(reference: str) -> tuple[str, str, str]:
    """Return host, repository and tag or digest ("" where there is none). Raises WeightsError."""
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise WeightsError(
            f"oci://{reference}: write oci://HOST/REPOSITORY, and the tag or sha256:... behind it", WRONG_USE
        )
    return found["host"], found["name"], found["digest"] or found["tag"] or ""


class Registry:
    """One repository of a registry; plain HTTP is spoken on this machine alone."""

    def __init__(self, host: str, repository: str, push: bool = False) -> None:
        real = "registry-1.docker.io" if host == "docker.io" else host
        self.name = f"{host}/{repository}"
        self._base = f"{web.scheme_for(real)}://{real}/v2/{repository}/"
        self._login, self._token = _login(host), ""
        self._scope = f"repository:{repository}:{'pull,push' if push else 'pull'}"

    def manifest(self, reference: str) -> tuple[bytes, dict[str, Any]]:
        """Return a manifest as it is and as JSON. Raises Interrupted or WeightsError."""
        accept = {"Accept": ", ".join(_MANIFESTS)}
        with self.ask("GET", f"manifests/{reference}", accept) as answer:
            content = answer.read()
        try:
            found = json.loads(content)
            assert isinstance(found, dict)
        except (ValueError, AssertionError):
            raise WeightsError(f"{self.name}:{reference} is not a manifest", AWAY) from None
        return content, found

    def blob(self, digest: str, start: int, end: int | None = None) -> HTTPResponse:
        """Return the answer with a blob's bytes from `start` to before `end`. Raises Interrupted or WeightsError."""
        whole = start == 0 and end is None
        span = {} if whole else {"Range": f"bytes={start}-{'' if end is None else end - 1}"}
        answer = self.ask("GET", f"blobs/{digest}", span)
        if not whole and answer.status != 206:
            answer.close()
            raise WeightsError(f"{self.name}: the registry gives no part of a layer, only all of it", AWAY)
        return answer

    def stream(self, digest: str, start: int, size: int) -> Iterator[bytes]:
        """Yield `size` bytes of a blob from `start` on. Raises Interrupted or WeightsError."""
        left = size
        try:
            with self.blob(digest, start, start + size) as answer:
                while left and (block := answer.read(min(web.BLOCK, left))):
                    left -= len(block)
                    yield block
        except OSError as error:
            raise Interrupted(f"{self.name} broke off: {error}") from None
        if left:
            raise Interrupted(f"{self.name} broke off with {left} bytes to come")

    def has(self, digest: str) -> bool:
        """Tell whether a blob is there."""
        try:
            self.ask("HEAD", f"blobs/{digest}").close()
        except _Absent:
            return False
        return True

    def put_blob(self, digest: str, size: int, blocks: Iterator[bytes]) -> None:
        """Upload a blob. Raises Interrupted or WeightsError."""
        with self.ask("POST", "blobs/uploads/", body=b"") as answer:
            place = urljoin(self._base, answer.headers["Location"])
        place += ("&" if "?" in place else "?") + urlencode({"digest": digest})
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        self.ask("PUT", place, headers, blocks).close()

    def put_manifest(self, reference: str, content: bytes) -> None:
        """Set a tag, or a digest alone, to a manifest. Raises Interrupted or WeightsError."""
        self.ask("PUT", f"manifests/{reference}", {"Content-Type": MANIFEST}, content).close()

    def ask(self, method: str, path: str, headers: Mapping[str, str] = {}, body: Any = None) -> HTTPResponse:
        """Return the answer, logged in where the registry asks for it. Raises Interrupted or WeightsError."""
        url = path if "://" in path else self._base + path
        for last in (False, True):
            try:
                return web.ask(url, self._headers() | dict(headers), method, body)
            except urllib.error.HTTPError as error:
                with error:
                    challenge = error.headers.get("WWW-Authenticate") or ""
                    if error.code == 401 and not last and self._may_enter(challenge):
                        continue
                    kind = _Absent if error.code == 404 else WeightsError
                    hint = (
                        "; log in: docker login, or REGISTRY_USER and REGISTRY_PASSWORD"
                        if error.code in (401, 403)
                        else ""
                    )
                    raise kind(
                        f"{self.name}: {method} {path.partition('?')[0]}: {error.code} {error.reason}{hint}", AWAY
                    ) from None
        raise AssertionError

    def _headers(self) -> dict[str, str]:
        if self._token:
            return {"Authorization": f"Bearer {self._token}"}
        return {"Authorization": f"Basic {self._login}"} if self._login else {}

    def _may_enter(self, challenge: str) -> bool:
        """Get a token where the registry names who gives it."""
        kind, _, rest = challenge.partition(" ")
        said = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        if kind.lower() != "bearer" or "realm" not in said:
            return False
        query = urlencode({"service": said.get("service", ""), "scope": said.get("scope") or self._scope})
        headers = {"Authorization": f"Basic {self._login}"} if self._login else {}
        found, _ = web.ask_json(f"{said['realm']}?{query}", headers, f" (the login of {self.name})")
        self._token = str(found.get("token") or found.get("access_token") or "")
        return bool(self._token)


class _Absent(WeightsError):
    """The registry says that there is no such thing."""


def _login(host: str) -> str:
    user, password = os.environ.get("REGISTRY_USER"), os.environ.get("REGISTRY_PASSWORD")
    if user and password:
        return base64.b64encode(f"{user}:{password}".encode()).decode()
    own = os.environ.get("DOCKER_CONFIG")
    config = Path(own, "config.json") if own else in_home(".docker", "config.json")
    for file in (os.environ.get("REGISTRY_AUTH_FILE"), config):
        try:
            known = json.loads(Path(file).read_text(encoding="utf-8")) if file else {}
            auths, names = known.get("auths", {}), (host, f"https://{host}", *_HUB.get(host, ()))
            found = next((auths[name]["auth"] for name in names if auths.get(name, {}).get("auth")), "")
            if found := found or _kept(known.get("credHelpers", {}).get(host) or known.get("credsStore", ""), names):
                return str(found)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, subprocess.SubprocessError):
            continue
    return ""


def _kept(helper: str, names: tuple[str, ...]) -> str:
    """Return the login that a program of Docker keeps, such as docker-credential-osxkeychain, "" where it has none."""
    program = shutil.which(f"docker-credential-{helper}") if re.fullmatch(r"[\w.-]+", helper) else None
    for name in names if program else ():
        done = subprocess.run(
            [str(program), "get"], input=name, capture_output=True, text=True, check=False, timeout=60
        )
        if done.returncode == 0:
            found = json.loads(done.stdout)
            return base64.b64encode(f"{found['Username']}:{found['Secret']}".encode()).decode()
    return ""
