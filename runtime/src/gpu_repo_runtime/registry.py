"""Log in to the project's registry for the time of one program, and push an image to its staging.

REGISTRY_USER and REGISTRY_PASSWORD log in where they are set. REGISTRY_PASSWORD_COMMAND prints the password where a CI
system gives a token in place of one (OIDC).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from . import patience
from .script_error import ScriptError

DIGEST = re.compile(r"digest: (sha256:[0-9a-f]{64})")


class RegistryError(ScriptError):
    """The registry was not asked, or did not do it."""


def check_same(repository: str, staging: str) -> str:
    """Return the registry of what is released, which has to be that of what waits. Raises RegistryError."""
    host, other = repository.partition("/")[0], staging.partition("/")[0]
    if host != other:
        raise RegistryError(2, f"STAGING is in another registry than the releases: {other}, not {host}")
    return host


@contextmanager
def logged_in(host: str) -> Iterator[None]:
    """Log in to a registry; nothing of the login is left behind, also where a signal ends the program."""
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
        code, _, complaint = patience.run(command, given=f"{password}\n")
        if code:
            who, said = user or "(no REGISTRY_USER)", f": {complaint.splitlines()[-1]}" if complaint else ""
            raise RegistryError(3, f"the registry {host} refused the login of {who}, or does not answer{said}")
        yield


def _password() -> str:
    command = os.environ.get("REGISTRY_PASSWORD_COMMAND", "")
    if not command:
        return os.environ.get("REGISTRY_PASSWORD", "")
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        raise RegistryError(3, "REGISTRY_PASSWORD_COMMAND gave no password for the registry")
    return done.stdout.rstrip("\n")


def push(image: str, staging: str, repository: str, commit: str, file: Path) -> str:
    """Push an image to staging, write name, commit and time to a file, return the name. Raises RegistryError."""
    waiting = f"{staging}:{image.rpartition(':')[2]}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    with logged_in(check_same(repository, staging)):
        subprocess.run(["docker", "tag", image, waiting], check=True)
        code, printed, _ = patience.run(["docker", "push", waiting], show=True)
    found = DIGEST.findall(printed)
    if code or not found:
        what = f"{waiting} was not pushed" if code else f"docker push said no digest of {waiting}"
        raise RegistryError(3, f"{what}: {''.join(printed.splitlines()[-1:])}")
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # noqa: UP017 - an agent may have an older Python
    file.write_text(f"{staging}@{found[-1]}\n{commit}\n{now}\n", encoding="utf-8")
    return f"{staging}@{found[-1]}"
