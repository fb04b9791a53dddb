"""Settings in .env and ci.env, by the rules of `docker run --env-file`, and the package index as pip and uv know it.

NAME=VALUE in a line, the value taken as it stands; NAME alone passes on what is exported. What is exported wins.
"""

from __future__ import annotations

import configparser
import os
import re
from pathlib import Path

from .facts import ScriptError

LINE = re.compile(rb"([A-Za-z_][A-Za-z0-9_]*)(=.*)?", re.DOTALL)
RESERVED = re.compile(r"HOME|PATH|PYTHON(PATH|HOME|SAFEPATH)|LD_\w+|BASH_ENV")
UV = {
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_TRUSTED_HOST": "UV_INSECURE_HOST",
    "PIP_CERT": "SSL_CERT_FILE",
}
PIP_CONF = ("/etc/pip.conf", "~/.config/pip/pip.conf", "~/.pip/pip.conf", "$PIP_CONFIG_FILE")


def read_settings() -> tuple[str, ...]:
    """Export what .env sets, in CI also the text CI_ENV and the file ci.env; return the names. Raises ScriptError."""
    files = (".env", "ci.env") if os.environ.get("CI") else (".env",)
    try:
        texts = {name: Path(name).read_bytes() for name in files if os.path.lexists(name)}
    except OSError as error:
        raise ScriptError(1, f"{error.filename}: {error.strerror}") from error
    if os.environ.get("CI"):
        texts = {"CI_ENV": os.fsencode(os.environ.get("CI_ENV", "")), **texts}
    names: dict[str, None] = {}
    for source, text in texts.items():
        exported = set(os.environ)
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.lstrip().startswith(b"#"):
                name, value = setting(line, f"{source}, line {number}")
                names[name] = None
                if value is not None and name not in exported:
                    os.environ[name] = value
    return tuple(names)


def setting(line: bytes, place: str) -> tuple[str, str | None]:
    """Return name and value of a line, no value where it only passes a name on. Raises ScriptError."""
    found = LINE.fullmatch(line)
    if not found:
        raise ScriptError(2, f"{place}: write NAME=VALUE")
    name, value = found[1].decode(), os.fsdecode(found[2][1:]) if found[2] else None
    if value and value[0] in "\"'":
        raise ScriptError(2, f"{place}: quotes are part of the value (docker run --env-file): remove them")
    if re.search(rb"\s#", line):
        raise ScriptError(2, f"{place}: a comment belongs on a separate line")
    if RESERVED.fullmatch(name):
        raise ScriptError(2, f"{place}: {name} cannot be set here: the scripts set it")
    return name, value


def set_index(of_company: str) -> None:
    """Let uv take packages where pip would: PIP_INDEX_URL and its neighbours, pip.conf, else the company's index."""
    files = configparser.RawConfigParser()
    files.read_dict({"global": {"index-url": of_company}})
    files.read([os.path.expanduser(os.path.expandvars(path)) for path in PIP_CONF])
    for name, of_uv in UV.items():
        key = name.removeprefix("PIP_").lower().replace("_", "-")
        remote = [word for word in files.get("global", key, fallback="").split() if not word.startswith("file:")]
        if value := os.environ.get(name) or " ".join(remote):
            os.environ[name] = value
            os.environ.setdefault(of_uv, value)
    os.environ["UV_FIND_LINKS"] = ",".join(filter(None, [os.environ.get("UV_FIND_LINKS"), "wheels"]))  # of the owner
    # Both indexes are searched for the best version, as pip does; uv alone takes the first that has the name.
    if os.environ.get("PIP_EXTRA_INDEX_URL"):
        os.environ.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
