"""The package index of a company: pip's settings on this machine, for `make lock` and as a secret of `make images`."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pip_settings import AS_UV, pip_settings, uv_environment

ADDRESSES = ("index-url", "extra-index-url")
CERTIFICATES = ("cert", "client-cert")
# What a build can use. Files of this machine are not in it: its certificates come from base-images/ca.
PASSED_ON = (*ADDRESSES, "trusted-host", "proxy", "timeout", "default-timeout")


def remote_settings() -> dict[str, str]:
    """Return the settings of pip that hold on another machine: wheels that lie here must not decide what is built."""
    found = {key: value for key, value in pip_settings(os.environ).items() if key in PASSED_ON}
    # uv's own variables say the same, and win.
    found |= {key: os.environ[AS_UV[key][0]] for key in ADDRESSES if AS_UV[key][0] in os.environ}
    remote = {
        key: " ".join(word for word in value.split() if key not in ADDRESSES or word.startswith(("http:", "https:")))
        for key, value in found.items()
    }
    return {key: value for key, value in remote.items() if value}


def lock_environment() -> dict[str, str]:
    """Return the environment in which uv resolves a lock: this one's, with the remote package indexes alone."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("UV_", "PIP_"))}
    own = {key: value for key, value in pip_settings(os.environ).items() if key in CERTIFICATES}
    given = {f"PIP_{key.upper().replace('-', '_')}": value for key, value in (own | remote_settings()).items()}
    return uv_environment(kept | given, files=())


@contextmanager
def secret_pip_conf() -> Iterator[list[str]]:
    """Yield the options of `docker buildx build` that pass the settings on as a secret, in no layer; none if unset."""
    settings = remote_settings()
    if not settings:
        yield []
        return
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:  # only its owner reads it
        file.write("[global]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items()))
        file.flush()
        yield ["--secret", f"id=pip.conf,src={Path(file.name).resolve()}"]
