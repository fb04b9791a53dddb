"""Files over HTTP: taken up where a transfer broke off, and no password is sent to another host than it is for."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from ..problems import AWAY, WRONG_USE, Interrupted, WeightsError

TIMEOUT_S = 60
BLOCK = 1 << 20
BUSY = (408, 429, 500, 502, 503, 504)
_THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]", "::1")


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Follow, without the password where another host is asked."""
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None and urlsplit(following.full_url)[:2] != urlsplit(req.full_url)[:2]:
            following.remove_header("Authorization")
        return following


_OPENER = urllib.request.build_opener(_Redirects)


def scheme_for(host: str) -> str:
    """Return http for this machine, else https."""
    return "http" if urlsplit(f"//{host}").hostname in _THIS_MACHINE else "https"


def without_login(url: str) -> tuple[str, dict[str, str]]:
    """Return an address without its user and password, and the header that stands for them."""
    parts = urlsplit(url)
    if parts.username is None:
        return url, {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    plain = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return plain, {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def ask(url: str, headers: Mapping[str, str] = {}, method: str = "GET", body: Any = None) -> http.client.HTTPResponse:
    """Return the answer to a request. Raises Interrupted where another try may help, else HTTPError.

    The answer is to be closed.
    """
    plain, login = without_login(url)
    request = urllib.request.Request(
        plain, body, login | dict(headers) | {"Accept-Encoding": "identity"}, method=method
    )
    try:
        answer: http.client.HTTPResponse = _OPENER.open(request, timeout=TIMEOUT_S)
        return answer
    except urllib.error.HTTPError as error:
        if error.code in BUSY:
            raise Interrupted(f"{plain} answered {error.code} {error.reason}") from None
        raise
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise Interrupted(f"{urlsplit(plain).netloc} does not answer: {reason}") from None


def refused(url: str, error: urllib.error.HTTPError, hint: str = "") -> WeightsError:
    """Return the error for an answer that another try does not change."""
    plain, _ = without_login(url)
    return WeightsError(f"{plain} answered {error.code} {error.reason}{hint}", AWAY)


def ask_json(url: str, headers: Mapping[str, str] = {}, hint: str = "") -> tuple[Any, http.client.HTTPMessage]:
    """Return what an address says in JSON, and the headers. Raises Interrupted or WeightsError."""
    try:
        with ask(url, headers) as answer:
            return json.load(answer), answer.headers
    except urllib.error.HTTPError as error:
        raise refused(url, error, hint) from None
    except ValueError:
        raise WeightsError(f"{without_login(url)[0]} answered with no JSON{hint}", AWAY) from None


def stream(url: str, start: int = 0, headers: Mapping[str, str] = {}, hint: str = "") -> Iterator[bytes]:
    """Yield the bytes of an address from `start` on. Raises Interrupted where it breaks off, or WeightsError."""
    try:
        with ask(url, dict(headers) | ({"Range": f"bytes={start}-"} if start else {})) as answer:
            skip = 0 if answer.status == 206 else start  # it gives all of it again
            left = int(answer.headers["Content-Length"]) if answer.headers["Content-Length"] else None
            while block := answer.read(BLOCK):
                left = None if left is None else left - len(block)
                if skip < len(block):
                    yield block[skip:]
                skip = max(0, skip - len(block))
            if left:
                raise Interrupted(f"{urlsplit(url).hostname} broke off with {left} bytes to come")
    except urllib.error.HTTPError as error:
        if error.code == 416 and start:
            return
        raise refused(url, error, hint) from None
    except (OSError, http.client.HTTPException) as error:
        raise Interrupted(f"{urlsplit(url).hostname} broke off: {error}") from None


class Web:
    """Files below an https address, which has no list of them: `files` names each; or the one that it is itself."""

    revision = ""

    def __init__(self, address: str, files: tuple[str, ...]) -> None:
        parts = urlsplit(address)
        if parts.scheme == "http" and parts.hostname not in _THIS_MACHINE:
            raise WeightsError(f"{address}: write https://, http is for this machine alone", WRONG_USE)
        if any(sign in name for name in files for sign in "*?["):
            raise WeightsError(f"{address}: an address has no list of files: name each in files", WRONG_USE)
        if not files and (not parts.path or parts.path.endswith("/")):
            raise WeightsError(f"{address}: say which files lie below it: files = [...]", WRONG_USE)
        last = unquote(parts.path.rpartition("/")[2])
        base = urlunsplit(parts._replace(path=parts.path.rstrip("/")))
        alone = files in ((), (last,))
        self._urls = {last: address} if alone else {name: _below(base, name) for name in files}

    def listing(self) -> dict[str, int | None]:
        """Return the names; sizes are known when they are here."""
        return dict.fromkeys(self._urls)

    def read(self, path: str, start: int) -> Iterator[bytes]:
        """Yield the bytes of a file from `start` on."""
        return stream(self._urls[path], start)


def _below(base: str, name: str) -> str:
    parts = urlsplit(base)
    return urlunsplit(parts._replace(path=f"{parts.path}/{quote(name)}"))
