"""Files over HTTP: a transfer that breaks off is continued, and a login is sent to its own host alone."""

from __future__ import annotations

import base64
import http.client
import json
import netrc
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from .problems import AWAY, WeightsError, amount, say

PAUSES_S = (1, 5, 15)
TIMEOUT_S = 20.0
BLOCK = 1 << 20
_CLOSED = (401, 403, 404)  # 404: many servers hide what is not public
_BUSY = (408, 429, 500, 502, 503, 504)


class _Interrupted(Exception):
    """Another try may help."""


def read(url: str, start: int, headers: Mapping[str, str], hint: str = "") -> Iterator[bytes]:
    """Yield the bytes of an address from `start` on. Raises WeightsError.

    hint: what opens an address that is closed.
    """
    at, failed, version = start, 0, ""
    while True:
        before = at
        try:
            with _request(url, headers, at, hint) as answer:
                found = answer.headers["ETag"] or answer.headers["Last-Modified"] or ""
                if version and found != version:
                    raise WeightsError(f"{url} changed while it was downloaded: run it again", AWAY)
                version = found
                for block in _blocks(answer, 0 if answer.status == 206 else at):
                    at += len(block)
                    yield block
            return
        except urllib.error.HTTPError as error:  # 416: all of it is here
            if error.code != 416 or not at:
                raise _refused(url, error, hint) from None
            return
        except (_Interrupted, OSError, http.client.HTTPException) as error:
            failed = 0 if at > before else failed + 1
            _pause(f"{urlsplit(url).netloc}: {error}" + (f", continuing at {amount(at)}" if at else ""), failed)


def read_json(url: str, headers: Mapping[str, str], hint: str) -> tuple[Any, http.client.HTTPMessage]:
    """Return what an address says in JSON, and the headers. Raises WeightsError."""
    failed = 0
    while True:
        try:
            with _request(url, headers, 0, hint) as answer:
                return json.load(answer), answer.headers
        except ValueError:
            raise WeightsError(f"{url} answered without JSON{hint}", AWAY) from None
        except (_Interrupted, OSError, http.client.HTTPException) as error:
            failed += 1
            _pause(f"{urlsplit(url).netloc}: {error}", failed)


def login(host: str) -> dict[str, str]:
    """Return the header with a host's login in ~/.netrc, or in the file that NETRC names."""
    try:
        found = netrc.netrc(os.environ.get("NETRC")).authenticators(host)
    except FileNotFoundError:
        return {}
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError) as error:
        say(f"no login is used: {error}")  # most addresses need none
        return {}
    return {"Authorization": "Basic " + base64.b64encode(f"{found[0]}:{found[2]}".encode()).decode()} if found else {}


def _request(url: str, headers: Mapping[str, str], start: int, hint: str) -> http.client.HTTPResponse:
    request = urllib.request.Request(url, headers={"Accept-Encoding": "identity", "User-Agent": "gpu-repo-runtime"})
    for name, value in headers.items():
        request.add_unredirected_header(name, value)
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code in _BUSY:
            raise _Interrupted(f"{error.code} {error.reason}") from None
        if error.code == 416 and start:
            raise
        raise _refused(url, error, hint) from None
    except urllib.error.URLError as error:
        raise _Interrupted(str(error.reason)) from None
    if (answer.headers["Content-Encoding"] or "identity") != "identity":
        raise WeightsError(f"{url} is only available compressed, which was not asked for", AWAY)
    if answer.status == 206 and not (answer.headers["Content-Range"] or "").startswith(f"bytes {start}-"):
        raise WeightsError(f"{url} answered with other bytes than those from {start} on", AWAY)
    page = answer.headers.get_content_type() == "text/html" and not urlsplit(url).path.endswith((".html", ".htm"))
    if page:
        raise WeightsError(f"{url} answered with a web page, perhaps that of a login, and not with a file{hint}", AWAY)
    return answer


def _blocks(answer: http.client.HTTPResponse, skip: int) -> Iterator[bytes]:
    while block := answer.read1(BLOCK):
        if skip < len(block):
            yield block[skip:]
        skip = max(0, skip - len(block))
    if answer.length:
        raise _Interrupted(f"the transfer broke off with {answer.length} bytes to come")


def _refused(url: str, error: urllib.error.HTTPError, hint: str) -> WeightsError:
    why = " ".join(str(error.reason).split())
    return WeightsError(f"{url} answered {error.code} {why}{hint if error.code in _CLOSED else ''}", AWAY)


def _pause(what: str, failed: int) -> None:
    if failed > len(PAUSES_S):
        raise WeightsError(f"{what}; what has come is kept, the same command continues with it", AWAY)
    say(f"{what}: trying again")
    time.sleep(PAUSES_S[max(0, failed - 1)] if PAUSES_S else 0)
