"""Files over HTTP: taken up where a transfer broke off, and no password is sent to another host than it is for."""

from __future__ import annotations

import base64
import http.client
import json
import netrc
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from ..home import in_home
from ..problems import AWAY, WRONG_USE, Interrupted, WeightsError
from ..progress import say

TIMEOUT = "WEIGHTS_TIMEOUT"
TIMEOUT_S, UPLOADED_S = 20.0, 300.0  # a registry moves what it has taken before it answers
SILENT_TRIES = 2  # of a silent server one more try is enough: each takes as long as all pauses together
BLOCK = 1 << 20
CLOSED = (401, 403, 404, 407)  # 404: many hide what is not for everybody
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
    plain = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return plain, {"Authorization": _basic(unquote(parts.username), unquote(parts.password or ""))}


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def ask(url: str, headers: Mapping[str, str] = {}, method: str = "GET", body: Any = None) -> http.client.HTTPResponse:
    """Return the answer to a request. Raises Interrupted where another try may help, else HTTPError.

    The answer is to be closed.
    """
    plain, login = without_login(url)
    request = urllib.request.Request(
        plain, body, login | dict(headers) | {"Accept-Encoding": "identity"}, method=method
    )
    try:
        answer: http.client.HTTPResponse = _OPENER.open(request, timeout=UPLOADED_S if method == "PUT" else timeout())
        return answer
    except urllib.error.HTTPError as error:
        if error.code in BUSY:
            raise Interrupted(f"{plain} answered {error.code} {error.reason}") from None
        raise
    except (OSError, http.client.HTTPException) as error:
        raise _broken(urlsplit(plain).netloc, "does not answer", getattr(error, "reason", error)) from None


def timeout() -> float:
    """Return the seconds that a server may say nothing. Raises WeightsError."""
    given = os.environ.get(TIMEOUT) or str(TIMEOUT_S)
    if not re.fullmatch(r"\d{1,6}(\.\d*)?", given) or not float(given):
        raise WeightsError(f"{TIMEOUT}={given} is no number of seconds", WRONG_USE)
    return float(given)


def _broken(host: str | None, what: str, reason: object) -> Interrupted:
    if isinstance(reason, TimeoutError):
        return Interrupted(f"{host} has said nothing for {timeout():g} s", SILENT_TRIES)
    return Interrupted(f"{host} {what}: {reason}")


def refused(url: str, error: urllib.error.HTTPError, hint: str = "") -> WeightsError:
    """Return the error for an answer that another try does not change. hint: what opens a place that is closed."""
    why = " ".join(str(error.reason).split())
    if error.code // 100 == 3:
        why, hint = f"and leads nowhere that can be followed ({error.headers['Location'] or 'no address'})", ""
    return WeightsError(f"{_plain(url)} answered {error.code} {why}{hint if error.code in CLOSED else ''}", AWAY)


def _plain(url: str) -> str:
    return without_login(url)[0].partition("?")[0]


def ask_json(url: str, headers: Mapping[str, str] = {}, hint: str = "") -> tuple[Any, http.client.HTTPMessage]:
    """Return what an address says in JSON, and the headers. Raises Interrupted or WeightsError."""
    try:
        with ask(url, headers) as answer:
            return json.load(answer), answer.headers
    except urllib.error.HTTPError as error:
        raise refused(url, error, hint) from None
    except ValueError:
        raise WeightsError(f"{_plain(url)} answered with no JSON{hint}", AWAY) from None


def stream(
    url: str, start: int = 0, headers: Mapping[str, str] = {}, hint: str = "", marks: dict[str, str] | None = None
) -> Iterator[bytes]:
    """Yield the bytes of an address from `start` on. Raises Interrupted where it breaks off, or WeightsError.

    marks: which version of an address was read until now, so that no second half is put behind another first one.
    """
    try:
        with ask(url, dict(headers) | ({"Range": f"bytes={start}-"} if start else {})) as answer:
            if packed := (answer.headers["Content-Encoding"] or "identity").strip().lower().replace("identity", ""):
                raise WeightsError(f"{_plain(url)} is only given packed ({packed}), which was not asked for", AWAY)
            mark = answer.headers["ETag"] or answer.headers["Last-Modified"] or ""
            if marks is not None and marks.setdefault(url, mark) != mark and start:
                raise WeightsError(f"{_plain(url)} changed while it was fetched: run it again", AWAY)
            skip = _too_early(answer, start, _plain(url))
            for number, block in enumerate(_blocks(answer, urlsplit(url).hostname)):
                if not number and not start:
                    _check_page(answer, block, _plain(url), hint)
                if skip < len(block):
                    yield block[skip:]
                skip = max(0, skip - len(block))
    except urllib.error.HTTPError as error:
        if error.code == 416 and start:
            return
        raise refused(url, error, hint) from None
    except (OSError, http.client.HTTPException) as error:
        raise _broken(urlsplit(url).hostname, "broke off", error) from None


def _blocks(answer: http.client.HTTPResponse, host: str | None) -> Iterator[bytes]:
    """Yield an answer as it comes: of one that breaks off in the middle of a block nothing is lost."""
    length = answer.headers["Content-Length"] or ""
    left = int(length) if length.isdecimal() else None
    while left != 0 and (block := answer.read1(BLOCK if left is None else min(BLOCK, left))):
        left = None if left is None else left - len(block)
        yield block
    if left:
        raise Interrupted(f"{host} broke off with {left} bytes to come")


def _check_page(answer: http.client.HTTPResponse, block: bytes, place: str, hint: str) -> None:
    """Raise WeightsError where a page for people comes instead of a file, as before a login."""
    told = answer.headers.get_content_type() == "text/html" and not place.lower().endswith((".html", ".htm"))
    if told and block.lstrip()[:9].lower().startswith((b"<!doctype", b"<html")):
        raise WeightsError(f"{place} answered with a web page, perhaps that of a login, and with no file{hint}", AWAY)


def _too_early(answer: http.client.HTTPResponse, start: int, place: str) -> int:
    """Return how many bytes before those that were asked for an answer gives. Raises WeightsError."""
    if answer.status != 206:
        return start  # it gives all of it again
    told = re.match(r"bytes (\d+)-", answer.headers["Content-Range"] or "")
    begins = int(told[1]) if told else start
    if begins > start:
        raise WeightsError(f"{place} gave the bytes from {begins} on, and was asked for those from {start} on", AWAY)
    return start - begins


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
        self._login, self._marks = _netrc(parts.hostname or ""), dict[str, str]()
        self._urls = {last: address} if alone else {name: _below(base, name) for name in files}

    def listing(self) -> dict[str, int | None]:
        """Return the names; sizes are known when they are here."""
        return dict.fromkeys(self._urls)

    def read(self, path: str, start: int) -> Iterator[bytes]:
        """Yield the bytes of a file from `start` on."""
        hint = " (a login for it stands in ~/.netrc, or in the file that NETRC names)"
        headers = {} if urlsplit(self._urls[path]).username else self._login
        return stream(self._urls[path], start, headers, hint, self._marks)


def _netrc(host: str) -> dict[str, str]:
    """Return the header that stands for the login of a host; curl and pip read the same file."""
    own = os.environ.get("NETRC")
    place = Path(own) if own else in_home(".netrc")
    if place is None:
        return {}
    try:
        found = netrc.netrc(str(place)).hosts.get(host)
    except FileNotFoundError:
        return {}
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError) as error:
        say(f"{place} cannot be read, so nobody is logged in by it: {error}")  # most addresses need no login
        return {}
    return {"Authorization": _basic(found[0], found[2])} if found else {}


def _below(base: str, name: str) -> str:
    parts = urlsplit(base)
    return urlunsplit(parts._replace(path=f"{parts.path}/{quote(name)}"))
