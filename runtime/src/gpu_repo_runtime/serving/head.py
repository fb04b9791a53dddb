"""What is asked of the head of every request, whatever it is for."""

import random
import re

from starlette.types import Scope

from .errors import BadHost, Encoded, UnknownCoding

# A name, an IPv4 or a bracketed IPv6 address, and a port (RFC 3986, section 3.2.2).
usable_host = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(:[0-9]*)?").fullmatch
_WAY_OUT = "send one header Host with the name and the port that you call"


def check_head(scope: Scope) -> None:
    """Refuse what is said of host and body. Raises BadHost, Encoded or UnknownCoding."""
    host, encoding = None, b""
    for name, value in scope["headers"]:
        if name == b"host":
            if host is not None:
                raise BadHost(_WAY_OUT)
            host = value
        elif name == b"content-encoding" and not encoding:
            encoding = value.strip().lower()
        elif name == b"transfer-encoding" and value.strip().lower() != b"chunked":
            raise UnknownCoding("send the body in chunks or with its length, and in no other Transfer-Encoding")
    if not usable_host(host) if host is not None else scope["http_version"] == "1.1":
        raise BadHost(_WAY_OUT)
    if encoding and encoding != b"identity":
        raise Encoded("send the body as it is, without the header Content-Encoding")


def new_id() -> str:
    """An id for a request that brings none."""
    return f"{random.getrandbits(96):024x}"
