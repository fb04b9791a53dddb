"""Addresses may hold a password, which no log and no record may show."""

import re

# Up to the last @ before the path. A password may hold a slash that nobody escaped; a port is none.
_PASSWORD = re.compile(r"(\w://[^/@:\s]*:)(?:[^/\s]*|(?!\d+/)\S*)@")


def masked(text: str) -> str:
    """Return the text with *** in place of the password in each scheme://user:password@host."""
    return _PASSWORD.sub(r"\1***@", text)


def behind_password(address: str) -> int:
    """Return where an address goes on behind its user and password, 0 where it has none."""
    found = _PASSWORD.search(address)
    return found.end() if found else 0


def is_masked(address: str) -> bool:
    """Tell whether an address lacks its password."""
    return ":***@" in address
