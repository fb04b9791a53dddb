"""pip's settings as uv's variables: where packages come from, and how to get there.

Companies set pip (PIP_INDEX_URL, or a pip.conf as a build secret), and uv reads neither. A setting of uv wins.
"""

import configparser
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

FILES = (Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf", Path.home() / ".pip/pip.conf")
SECTIONS = ("global", "install", "download")
# pip's setting: uv's variable, and how uv separates several values.
AS_UV = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "client-cert": ("SSL_CLIENT_CERT", " "),
    "proxy": ("ALL_PROXY", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
}


def pip_settings(environment: Mapping[str, str], files: Iterable[Path] = FILES) -> dict[str, str]:
    """Return what pip's files and then its variables (PIP_INDEX_URL) set, by the names of a pip.conf (index-url)."""
    named = environment.get("PIP_CONFIG_FILE")
    found: dict[str, str] = {}
    for path in [*files, *([Path(named)] if named else [])]:
        if path.is_file():
            parser = configparser.RawConfigParser()
            parser.read(path)
            for section in filter(parser.has_section, SECTIONS):
                found |= {key.replace("_", "-"): value for key, value in parser.items(section)}
    # An empty variable is none, as of a secret that is not set.
    variables = {key.removeprefix("PIP_"): value for key, value in environment.items() if value and key[:4] == "PIP_"}
    return found | {key.lower().replace("_", "-"): value for key, value in variables.items()}


def index_options(environment: Mapping[str, str] = os.environ, files: Iterable[Path] = FILES) -> list[str]:
    """Return the option of uv for pip's no-index, for which uv reads no variable."""
    value = pip_settings(environment, files).get("no-index", "").strip().lower()
    return ["--no-index"] if value in ("1", "true", "yes", "on") else []


def uv_environment(environment: Mapping[str, str] = os.environ, files: Iterable[Path] = FILES) -> dict[str, str]:
    """Return the environment for uv: the given one, with pip's settings under uv's names and without pip's own."""
    translated = {
        variable: separator.join(value.split())
        for key, value in pip_settings(environment, files).items()
        if key in AS_UV and value.strip()
        for variable, separator in [AS_UV[key]]
    }
    kept = {key: value for key, value in environment.items() if not key.startswith("PIP_")}
    return translated | kept
