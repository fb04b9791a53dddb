"""Give a tag to the image that was pushed and checked: the same digest, copied and never built again.

A tag that begins with v or a digit never moves. Any other follows, and only to newer commits, unless told otherwise.
scripts/promote asks first whether the image may be released.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from . import patience
from .registry import RegistryError, check_same, logged_in

LABELS = " ".join(f'{{{{index .Labels "org.opencontainers.image.{name}"}}}}' for name in ("revision", "created"))
ANSWER_S, COPY_S = 120, 1200
REFUSED, NOT_DONE = 1, 3


@dataclass(frozen=True)
class Repository:
    """Where images of a project are released; skopeo speaks to it, in plain HTTP only on this machine."""

    name: str

    def skopeo(self, action: str, *options: str, tls: tuple[str, ...] = ("tls-verify",)) -> tuple[int, str, str]:
        """Run an action of skopeo, patiently; return exit code, what it printed and what it complained of."""
        here = re.match(r"(localhost|127\.0\.0\.1)[:/]", self.name) is not None
        command = ["skopeo", action, *(f"--{option}={str(not here).lower()}" for option in tls), *options]
        code, printed, complaint = patience.run(command, COPY_S if action == "copy" else ANSWER_S)
        return code, printed.strip(), complaint

    def inspect(self, image: str, form: str, unknown: str | None = None) -> str:
        """Return a form of an image, `unknown` where there is no such image. Raises RegistryError: no answer."""
        code, found, complaint = self.skopeo("inspect", "--no-tags", "--format", form, f"docker://{image}")
        if code == 0:
            return found
        if unknown is not None and re.search("manifest unknown|name unknown|not found", complaint, re.IGNORECASE):
            return unknown
        raise RegistryError(NOT_DONE, f"{self.name} does not answer: {complaint.rpartition('msg=')[2]}")

    def copy(self, pushed: str, image: str) -> None:
        """Copy what was pushed to a name in this registry. Raises RegistryError."""
        verify = ("src-tls-verify", "dest-tls-verify")
        # --all: Docker may push an index, whose digest is what was checked; without it the tag gets one image of it.
        options = ("--quiet", "--all", "--preserve-digests", f"docker://{pushed}", f"docker://{image}")
        code, _, complaint = self.skopeo("copy", *options, tls=verify)
        if code:
            told = f"{image} was not set to {pushed.rpartition('@')[2]} (see above)"
            raise RegistryError(NOT_DONE, f"{complaint}\npromote: {told}")

    def check_readable(self, pushed: str, digest: str) -> None:
        """Copy an image without any tag and look whether it is there. Raises RegistryError.

        To an account that may not look, a registry says of everything that it is not there: a version that is set
        already could then be set anew.
        """
        image = f"{self.name}@{digest}"
        self.copy(pushed, image)
        if not self.inspect(image, "{{.Digest}}", unknown=""):
            told = f"{self.name} does not show {digest}, which was copied to it just now; no tag was set"
            raise RegistryError(NOT_DONE, f"{told}. Let the account that releases read what is released")

    def check_built_from(self, pushed: str, commit: str) -> None:
        """Raise RegistryError where what was pushed is an image that an engine still had from another commit."""
        there = self.inspect(pushed, LABELS).partition(" ")[0]
        if there != commit:
            known = there if re.fullmatch("[0-9a-f]{40,64}(-dirty)?", there) else "a commit that it does not name"
            way = "scripts/build makes it anew, then scripts/push"
            raise RegistryError(REFUSED, f"{pushed} was built from {known}, not from {commit}: {way}")

    def check_forwards(self, tag: str, commit: str, committed: str) -> None:
        """Raise RegistryError where a tag has an image of a newer commit."""
        there, _, when = self.inspect(f"{self.name}:{tag}", LABELS).partition(" ")
        if re.fullmatch("[0-9a-f]{40,64}", there) and is_newer(there, when, commit, committed):
            told = f"{self.name}:{tag} is of a newer commit already, {there}"
            raise RegistryError(REFUSED, f"{told}: not moved back to {commit}")


def is_ancestor(one: str, other: str) -> bool:
    """Tell whether git knows a commit as an ancestor of another."""
    command = ["git", "merge-base", "--is-ancestor", one, other]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def is_newer(there: str, when: str, commit: str, committed: str) -> bool:
    """Tell whether `there` is a newer commit than `commit`.

    The time decides for a commit that this clone does not know, and for one of another branch.
    """
    if there == commit or is_ancestor(there, commit):
        return False
    return is_ancestor(commit, there) or commit == "unknown" or committed < when


def promote(pushed: str, name: str, commit: str, committed: str, back: bool = False) -> str:
    """Set the tag `name` (REPOSITORY:TAG) to the digest that was pushed, and return it. Raises RegistryError."""
    repository, tag = Repository(name.rpartition(":")[0]), name.rpartition(":")[2]
    digest = pushed.rpartition("@")[2]
    with logged_in(check_same(repository.name, pushed)):
        repository.check_built_from(pushed, commit)
        repository.check_readable(pushed, digest)
        found = repository.inspect(name, "{{.Digest}}", unknown="")
        if re.match("[vV0-9]", tag):  # CI starts on every tag v*
            if found not in ("", digest):
                told = f"is {found} already and a version never moves: give this commit a new version instead of"
                raise RegistryError(REFUSED, f"{name} {told} {digest}")
        elif found and not back:
            repository.check_forwards(tag, commit, committed)
        repository.copy(pushed, name)
        found = repository.inspect(name, "{{.Digest}}", unknown="not there")
        if found != digest:
            raise RegistryError(NOT_DONE, f"{name} is {found}, expected {digest}")
    return digest
