"""Push an image to staging, and release it: the digest that was pushed is copied, and nothing is built again.

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
from typing import NamedTuple

from .script_error import ScriptError

DIGEST = re.compile(r"digest: (sha256:[0-9a-f]{64})")
LABEL = '{{index .Labels "org.opencontainers.image.%s"}}'
FORM = "|".join(["{{.Digest}}", LABEL % "revision", LABEL % "created"])


class Image(NamedTuple):
    """An image in a registry. `created` is the time of its commit in UTC; labels that it lacks are ""."""

    digest: str
    commit: str
    created: str


@contextmanager
def logged_in(*images: str) -> Iterator[None]:
    """Log in to the registries of images; nothing of the login is left behind, also where a signal ends the program."""
    user, password = os.environ.get("REGISTRY_USER", ""), _password()
    if not password:
        if user:
            raise ScriptError(2, f"REGISTRY_PASSWORD is empty: the secret of {user} is not set, or not for this build")
        yield
        return
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DOCKER_CONFIG": folder, "REGISTRY_AUTH_FILE": f"{folder}/config.json"}
        for host in sorted({image.partition("/")[0] for image in images}):
            command = ["docker", "login", "--username", user, "--password-stdin", host]
            done = subprocess.run(command, input=password, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ScriptError(3, f"{host} refused the login of {user or 'no user'}: {done.stderr.strip()}")
        yield


def _password() -> str:
    command = os.environ.get("REGISTRY_PASSWORD_COMMAND", "")
    if not command:
        return os.environ.get("REGISTRY_PASSWORD", "")
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        raise ScriptError(3, "REGISTRY_PASSWORD_COMMAND gave no password for the registry")
    return done.stdout.rstrip("\n")


def push(image: str, staging: str) -> str:
    """Push an image to the repository `staging`; return staging@digest. Raises ScriptError."""
    waiting = f"{staging}:{image.rpartition(':')[2]}"
    with logged_in(staging):
        subprocess.run(["docker", "tag", image, waiting], check=True)
        done = subprocess.run(["docker", "push", waiting], stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="", file=sys.stderr)
    found = DIGEST.findall(done.stdout)
    if done.returncode or not found:
        raise ScriptError(3, f"{waiting} was not pushed, see above")
    return f"{staging}@{found[-1]}"


def promote(pushed: str, name: str, commit: str, committed: str, allow_older: bool = False) -> None:
    """Set the tag `name` (repository:tag) to what was pushed (repository@digest). Raises ScriptError.

    commit, committed: what the image must be built from, and its time in UTC as git and the labels write it.
    """
    digest = pushed.rpartition("@")[2]
    with logged_in(pushed, name):
        image = find(pushed)
        if image is None or image.commit != commit:  # a build that does nothing leaves an earlier image to be pushed
            built = (image and image.commit) or "an unknown commit"
            raise ScriptError(1, f"{pushed} was built from {built}, not from {commit}: build and push it again")
        there = find(name)
        if there and there.digest != digest:
            check_may_move(name, there, commit, committed, allow_older)
        # --all: Docker may push an index, whose digest is what was checked; without it the tag gets one image of it.
        done = skopeo("copy", "--all", "--preserve-digests", f"docker://{pushed}", f"docker://{name}")
        there = find(name)
    if done.returncode or there is None or there.digest != digest:
        found = there.digest if there else "not there"
        raise ScriptError(3, f"{name} is {found}, expected {digest}: {reason(done)}")


def check_may_move(name: str, there: Image, commit: str, committed: str, allow_older: bool) -> None:
    """Raise ScriptError where a tag must stay at the image that it has.

    A tag that begins with v or a digit never moves. Any other moves only to later commits, unless older ones are
    allowed. Their times decide, since the clone of a late build does not contain the newer commit.
    """
    if re.match("[vV0-9]", name.rpartition(":")[2]):
        raise ScriptError(1, f"{name} is {there.digest} already and a version never moves: give this commit a new one")
    if committed < there.created and not allow_older:
        raise ScriptError(1, f"{name} is of a newer commit already, {there.commit}: not moved back to {commit}")


def find(image: str) -> Image | None:
    """Return what a registry has under a name, None where there is nothing. Raises ScriptError: no answer."""
    done = skopeo("inspect", "--no-tags", "--format", FORM, f"docker://{image}")
    if done.returncode == 0:
        return Image(*done.stdout.strip().split("|"))
    if re.search("manifest unknown|name unknown|not found", done.stderr, re.IGNORECASE):
        return None
    raise ScriptError(3, f"{image}: the registry does not answer: {reason(done)}")


def skopeo(action: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run an action of skopeo on the image that is named last; in plain HTTP only on this machine."""
    local = re.match(r"docker://(localhost|127\.0\.0\.1)[:/]", words[-1]) is not None
    options = ("src-tls-verify", "dest-tls-verify") if action == "copy" else ("tls-verify",)
    verify = [f"--{option}={str(not local).lower()}" for option in options]
    command = ["skopeo", action, "--retry-times=3", *verify, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return why skopeo failed: the last line, after those of its retries."""
    return "".join(done.stderr.strip().splitlines()[-1:])
