"""Files over HTTP. A login is sent to its own host alone."""

from __future__ import annotations

import base64
import http.client
import netrc
import os
import shutil
import ssl
import time
import urllib.error
import urllib.request
from typing import BinaryIO

from .problems import AWAY, WeightsError, say

PAUSES_S = (1, 5, 15)
TIMEOUT_S = 20.0
_CLOSED = (401, 403, 404)  # 404: many servers hide private files
_BUSY = (408, 429, 500, 502, 503, 504)
_NETWORK = (urllib.error.URLError, ConnectionError, TimeoutError, ssl.SSLError, http.client.HTTPException)
_LOGIN = "; HF_TOKEN opens a private repository of the hub (HF_ENDPOINT names a mirror), ~/.netrc other addresses"


def get(url: str, login: str, file: BinaryIO) -> http.client.HTTPMessage:
    """Write what an address has to a file and return the headers of the answer. Raises WeightsError after four tries.

    login: the header Authorization, "" without one.
    """
    shown = url.partition("?")[0]
    pauses = iter(PAUSES_S)
    while True:
        file.truncate(file.seek(0))
        request = urllib.request.Request(url, headers={"Accept-Encoding": "identity", "User-Agent": "gpu-repo-runtime"})
        if login:
            request.add_unredirected_header("Authorization", login)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                headers: http.client.HTTPMessage = answer.headers
                if headers.get_content_type() == "text/html" and not shown.endswith((".html", ".htm")):
                    raise WeightsError(f"{shown} answered with a web page, perhaps that of a login{_LOGIN}", AWAY)
                shutil.copyfileobj(answer, file, 1 << 20)
                if not answer.length:
                    return headers
                problem = f"the transfer broke off with {answer.length} bytes to come"
        except urllib.error.HTTPError as error:
            problem = f"{error.code} {error.reason}"
            if error.code not in _BUSY:
                raise WeightsError(f"{shown}: {problem}{_LOGIN if error.code in _CLOSED else ''}", AWAY) from None
        except _NETWORK as error:
            problem = str(getattr(error, "reason", error))
        if (pause := next(pauses, None)) is None:
            raise WeightsError(f"{shown}: {problem}; run the same command again", AWAY)
        say(f"{shown}: {problem}: trying again")
        time.sleep(pause)


def login_of(host: str) -> str:
    """Return the header Authorization with a host's login in ~/.netrc, or in the file that NETRC names; "" without."""
    try:
        found = netrc.netrc(os.environ.get("NETRC")).authenticators(host)
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return ""  # most addresses need no login
    return "Basic " + base64.b64encode(f"{found[0]}:{found[2]}".encode()).decode() if found else ""
