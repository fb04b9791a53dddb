"""A login to the project's registry for the time of one program, as docker and skopeo take it.

REGISTRY_USER and REGISTRY_PASSWORD log in where they are set. REGISTRY_PASSWORD_COMMAND prints the password where a CI
system gives a token in place of one (OIDC).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

# How the scripts start this program; many a one that gives tokens is written in Python too.
OF_THIS_PROGRAM = ("PYTHONPATH", "PYTHONSAFEPATH", "PYTHONDONTWRITEBYTECODE")


class RegistryError(Exception):
    """The registry was not asked, or did not do it; the message says why, `code` is the exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def check_same(repository: str, staging: str) -> str:
    """Return the registry of what is released, which has to be that of what waits. Raises RegistryError."""
    host, other = repository.partition("/")[0], staging.partition("/")[0]
    if host != other:
        raise RegistryError(2, f"STAGING is in another registry than the releases: {other}, not {host}")
    return host


@contextmanager
def logged_in(host: str) -> Iterator[None]:
    """Log in to a registry; nothing of the login is left behind, also where a signal ends the program."""
    for name in OF_THIS_PROGRAM:
        os.environ.pop(name, None)
    user, password = os.environ.get("REGISTRY_USER", ""), _password()
    if not password:
        if user:
            raise RegistryError(
                2, f"REGISTRY_PASSWORD is empty: the secret of {user} is not set, or not for this build"
            )
        yield
        return
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DOCKER_CONFIG": folder, "REGISTRY_AUTH_FILE": f"{folder}/config.json"}
        command = ["docker", "login", "--username", user, "--password-stdin", host]
        if subprocess.run(command, input=f"{password}\n", text=True, stdout=subprocess.DEVNULL, check=False).returncode:
            who = user or "(no REGISTRY_USER)"
            raise RegistryError(3, f"the registry {host} refused the login of {who}, or does not answer")
        yield


def _password() -> str:
    command = os.environ.get("REGISTRY_PASSWORD_COMMAND", "")
    if not command:
        return os.environ.get("REGISTRY_PASSWORD", "")
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        raise RegistryError(3, "REGISTRY_PASSWORD_COMMAND gave no password for the registry")
    return done.stdout.rstrip("\n")
