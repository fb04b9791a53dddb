"""Whether the package indexes answer and accept the login: pip and uv say "not found" if they do not."""

from __future__ import annotations

import base64
import os
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen


def fault() -> str:
    """Return a sentence for the first index that does not answer or rejects the login; else ""."""
    company = " or the platform team's package_index"
    for name, place in (("PIP_INDEX_URL", company), ("PIP_EXTRA_INDEX_URL", "")):
        for url in os.environ.get(name, "").split():
            parts = urlsplit(url)
            login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
            headers = {"Authorization": f"Basic {base64.b64encode(login).decode()}"} if "@" in parts.netloc else {}
            address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
            try:
                urlopen(Request(f"{address.rstrip('/')}/", headers=headers), timeout=10).close()
            except HTTPError as error:
                if error.code == 401:
                    told = f"the package index {parts.hostname} refused the login (401)"
                    return f"{told}: correct user and password in {name}"
            except (OSError, ValueError) as error:
                if parts.scheme in ("http", "https"):
                    return f"the package index {parts.hostname} does not answer: check {name}{place} ({error})"
    return ""
