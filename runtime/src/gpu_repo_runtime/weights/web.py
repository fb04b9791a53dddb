"""Files over HTTP: a transfer that breaks off is continued, and a login is sent to its own host alone."""

from __future__ import annotations

import base64
import http.client
import json
import netrc
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from .problems import AWAY, WeightsError, say

PAUSES_S = (1, 5, 15)
TIMEOUT_S = 20.0
_CLOSED = (401, 403, 404)  # 404: many servers hide what is not public
_BUSY = (408, 429, 500, 502, 503, 504)
Found = TypeVar("Found")


class _Interrupted(Exception):
    """Another try may help."""


def download(url: str, headers: Mapping[str, str], hint: str, target: Path) -> None:
    """Write what an address has to a file. Raises WeightsError. hint: what opens an address that is closed."""
    version = ""
    with target.open("wb") as file:

        def go_on() -> None:
            nonlocal version
            at = file.tell() if version else file.seek(0)
            rest = {"Range": f"bytes={at}-", "If-Range": version} if at else {}
            with _request(url, {**headers, **rest}, hint) as answer:
                found = answer.headers["ETag"] or answer.headers["Last-Modified"] or ""
                span = answer.headers["Content-Range"] or ""
                if answer.status == 206 and (found != version or not span.startswith(f"bytes {at}-")):
                    raise WeightsError(f"{url} changed while it was downloaded, or other bytes came: try again", AWAY)
                if answer.status != 206:
                    file.truncate(file.seek(0))
                version = found
                shutil.copyfileobj(answer, file, 1 << 20)
                if answer.length:
                    raise _Interrupted(f"the transfer broke off with {answer.length} bytes to come")

        _tried(url, go_on, file.tell)


def read_json(url: str, headers: Mapping[str, str], hint: str) -> tuple[Any, http.client.HTTPMessage]:
    """Return what an address says in JSON, and the headers. Raises WeightsError."""

    def ask() -> tuple[Any, http.client.HTTPMessage]:
        with _request(url, headers, hint) as answer:
            return json.load(answer), answer.headers

    try:
        return _tried(url, ask, int)
    except ValueError:
        raise WeightsError(f"{url} answered without JSON{hint}", AWAY) from None


def login(host: str) -> dict[str, str]:
    """Return the header with a host's login in ~/.netrc, or in the file that NETRC names."""
    try:
        found = netrc.netrc(os.environ.get("NETRC")).authenticators(host)
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return {}  # most addresses need no login; one that does answers 401, with a hint
    return {"Authorization": "Basic " + base64.b64encode(f"{found[0]}:{found[2]}".encode()).decode()} if found else {}


def _tried(url: str, act: Callable[[], Found], progress: Callable[[], int]) -> Found:
    """Do something again after a fault of the network. Raises WeightsError after four tries without progress."""
    failed = 0
    while True:
        before = progress()
        try:
            return act()
        except (_Interrupted, OSError, http.client.HTTPException) as error:
            failed = 1 if progress() > before else failed + 1
            if failed > len(PAUSES_S):
                raise WeightsError(f"{urlsplit(url).netloc}: {error}; run the same command again", AWAY) from None
            say(f"{urlsplit(url).netloc}: {error}: trying again")
            time.sleep(PAUSES_S[failed - 1])


def _request(url: str, headers: Mapping[str, str], hint: str) -> http.client.HTTPResponse:
    request = urllib.request.Request(url, headers={"Accept-Encoding": "identity", "User-Agent": "gpu-repo-runtime"})
    for name, value in headers.items():
        add = request.add_unredirected_header if name == "Authorization" else request.add_header
        add(name, value)
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code in _BUSY:
            raise _Interrupted(f"{error.code} {error.reason}") from None
        why = " ".join(str(error.reason).split())
        told = hint if error.code in _CLOSED else ""
        raise WeightsError(f"{url} answered {error.code} {why}{told}", AWAY) from None
    except urllib.error.URLError as error:
        raise _Interrupted(str(error.reason)) from None
    if (answer.headers["Content-Encoding"] or "identity") != "identity":
        raise WeightsError(f"{url} is only available compressed, which was not requested", AWAY)
    if answer.headers.get_content_type() == "text/html" and not urlsplit(url).path.endswith((".html", ".htm")):
        raise WeightsError(f"{url} answered with a web page, perhaps that of a login, and not with a file{hint}", AWAY)
    return answer
