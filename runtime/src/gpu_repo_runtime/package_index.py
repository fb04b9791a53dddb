"""Whether a package index rejects the login. Where there are two, uv only says that a package was not found."""

from __future__ import annotations

import base64
import os
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen


def rejected_login() -> str:
    """Return a sentence about the first index that rejects the login; else ""."""
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        for parts in map(urlsplit, os.environ.get(name, "").split()):
            login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
            headers = {"Authorization": f"Basic {base64.b64encode(login).decode()}"} if "@" in parts.netloc else {}
            address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
            try:
                urlopen(Request(f"{address.rstrip('/')}/", headers=headers), timeout=10).close()
            except (OSError, ValueError) as error:  # uv has said all but a 401
                if isinstance(error, HTTPError) and error.code == 401:
                    told = f"the package index {parts.hostname} refused the login (401)"
                    return f"{told}: correct user and password in {name}"
    return ""
