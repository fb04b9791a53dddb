"""What is asked of the head of every request, whatever it is for."""

import re

from starlette.types import Scope

from .errors import BadHost, Encoded

# A name, an IPv4 or a bracketed IPv6 address, and a port (RFC 3986, section 3.2.2).
_host = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(:[0-9]*)?").fullmatch


def check_head(scope: Scope) -> None:
    """Refuse what is said of host and body. Raises BadHost or Encoded."""
    hosts, encoding = [], b""
    for name, value in scope["headers"]:
        if name == b"host":
            hosts.append(value)
        elif name == b"content-encoding":
            encoding = encoding or value.strip().lower()
    if len(hosts) > 1 or (not hosts and scope["http_version"] == "1.1") or not all(map(_host, hosts)):
        raise BadHost("send one header Host with the name and the port that you call")
    if encoding not in (b"", b"identity"):
        raise Encoded("send the body as it is, without the header Content-Encoding")
