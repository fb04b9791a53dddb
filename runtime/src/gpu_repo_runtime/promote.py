"""Give a tag to the image that was pushed and checked: the same digest, copied and never built again.

usage: promote NAME@DIGEST REPOSITORY:TAG --commit HASH --committed TIME [--back]

A tag that begins with v or a digit never moves. Any other follows, and only to newer commits, unless --back is given.
scripts/promote asks first whether the image may be released. Exit codes: 0 done, 1 refused, 3 the
registry did not do it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from dataclasses import dataclass

from .registry import RegistryError, check_same, logged_in

LABELS = " ".join(f'{{{{index .Labels "org.opencontainers.image.{name}"}}}}' for name in ("revision", "created"))

PAUSES_S = (2, 10)
ANSWER_S, COPY_S = 120, 1200
BUSY = re.compile(r"\b50[0-9]\b|unavailable|too ?many ?requests|timeout|reset by peer|\bEOF\b", re.IGNORECASE)


class NotPromotedError(RegistryError):
    """The tag is not set."""


@dataclass(frozen=True)
class Repository:
    """Where images of a project are released; skopeo speaks to it, in plain HTTP only on this machine."""

    name: str

    def skopeo(self, action: str, *options: str, tls: tuple[str, ...] = ("tls-verify",)) -> tuple[int, str, str]:
        """Run an action of skopeo; return exit code, what it printed and what it complained of.

        A registry that is busy, or does not answer in time, is asked again, twice.
        """
        here = re.match(r"(localhost|127\.0\.0\.1)[:/]", self.name) is not None
        command = ["skopeo", action, *(f"--{option}={str(not here).lower()}" for option in tls), *options]
        limit = COPY_S if action == "copy" else ANSWER_S
        answer = 1, "", ""
        for pause in (*PAUSES_S, None):
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
                answer = done.returncode, done.stdout.strip(), done.stderr.strip()
            except subprocess.TimeoutExpired:
                answer = 1, "", f"timeout: no answer within {limit} s"
            if answer[0] == 0 or pause is None or not BUSY.search(answer[2]):
                break
            print(f"promote: the registry is busy, trying again in {pause} s", file=sys.stderr)
            time.sleep(pause)
        return answer

    def digest(self, tag: str) -> str | None:
        """Return the digest that a tag has, "" when there is no such tag, None when the registry knows no tags at all.

        Raises NotPromotedError.
        """
        asked = ("--no-tags", "--format", "{{.Digest}}", f"docker://{self.name}:{tag}")
        code, digest, complaint = self.skopeo("inspect", *asked)
        if code == 0:
            return digest
        if not re.search("manifest unknown|name unknown|not found", complaint, re.IGNORECASE):
            raise self.silent(complaint)
        # A registry may say so by mistake: the list of its tags has to agree.
        code, listed, complaint = self.skopeo("list-tags", f"docker://{self.name}")
        if code and not re.search("name unknown|not found", complaint, re.IGNORECASE):
            raise self.silent(complaint)
        if f'"{tag}"' in listed:
            raise NotPromotedError(3, f"{self.name} lists the tag {tag} and says that it is not there: try again later")
        return None if code else ""

    def check_readable(self, pushed: str, digest: str) -> None:
        """Copy an image without any tag and look whether it is there. Raises NotPromotedError.

        To an account that may not look, a registry says of everything that it is not there: a version that is set
        already could then be set anew.
        """
        place = f"docker://{self.name}@{digest}"
        self.copy(pushed, place)
        code, _, _ = self.skopeo("inspect", "--no-tags", "--format", "{{.Digest}}", place)
        if code:
            told = f"{self.name} does not show {digest}, which was copied to it just now; no tag was set"
            raise NotPromotedError(3, f"{told}. Let the account that releases read what is released")

    def copy(self, pushed: str, place: str) -> None:
        """Copy what was pushed to a place of this registry. Raises NotPromotedError."""
        verify = ("src-tls-verify", "dest-tls-verify")
        # --all: Docker may push an index, whose digest is what was checked; without it the tag gets one image of it.
        options = ("--quiet", "--all", "--preserve-digests", f"docker://{pushed}", place)
        code, _, complaint = self.skopeo("copy", *options, tls=verify)
        if code:
            what = f"{place.removeprefix('docker://')} was not set to {pushed.rpartition('@')[2]}"
            raise NotPromotedError(3, f"{complaint}\npromote: {what}; the reason stands above")

    def silent(self, complaint: str) -> NotPromotedError:
        """Return the error for a registry that does not answer."""
        return NotPromotedError(3, f"{self.name} does not answer: {complaint.rpartition('msg=')[2]}")

    def told(self, image: str) -> tuple[str, str]:
        """Return the commit that an image says it was built from, and its time. Raises NotPromotedError."""
        code, found, complaint = self.skopeo("inspect", "--no-tags", "--format", LABELS, f"docker://{image}")
        if code:  # no answer is not permission
            raise self.silent(complaint)
        commit, _, when = found.partition(" ")
        return commit, when

    def check_built_from(self, pushed: str, commit: str) -> None:
        """Raise NotPromotedError where what was pushed is an image that an engine still had from another commit."""
        there, _ = self.told(pushed)
        if there != commit:
            known = there if re.fullmatch("[0-9a-f]{40,64}(-dirty)?", there) else "a commit that it does not name"
            way = "scripts/build makes it anew, then scripts/push"
            raise NotPromotedError(1, f"{pushed} was built from {known}, not from {commit}: {way}")

    def check_forwards(self, tag: str, commit: str, committed: str) -> None:
        """Raise NotPromotedError where a tag has an image of a newer commit.

        Of a commit that is not known here, and of another branch, the times decide, as in scripts/deploy.
        """
        there, when = self.told(f"{self.name}:{tag}")
        if not re.fullmatch("[0-9a-f]{40,64}", there) or git("merge-base", "--is-ancestor", there, commit):
            return
        if there != commit and (git("merge-base", "--is-ancestor", commit, there) or committed < when):
            raise NotPromotedError(
                1, f"{self.name}:{tag} is of a newer commit already, {there}: not moved back to {commit}"
            )


def git(*command: str) -> bool:
    """Tell whether a command of git succeeds in this repository."""
    return subprocess.run(["git", *command], capture_output=True, check=False).returncode == 0


def promote(pushed: str, repository: Repository, tag: str, commit: str, committed: str, back: bool) -> str:
    """Set the tag to the digest that was pushed, and return it. Raises NotPromotedError."""
    digest, name = pushed.rpartition("@")[2], f"{repository.name}:{tag}"
    repository.check_built_from(pushed, commit)
    found = repository.digest(tag)
    if found is None:
        repository.check_readable(pushed, digest)
    if re.match("[vV0-9]", tag):  # CI starts on every tag v*
        if found and found != digest:
            told = f"is {found} already and a version never moves: give this commit a new version instead of {digest}"
            raise NotPromotedError(1, f"{name} {told}")
    elif found and not back:
        repository.check_forwards(tag, commit, committed)
    repository.copy(pushed, f"docker://{name}")
    found = repository.digest(tag)
    if found != digest:
        raise NotPromotedError(3, f"{name} is {found or 'not there'}, expected {digest}")
    return digest


def main() -> int:
    """Read the command line, promote, say what was done; return the exit code."""
    parser = argparse.ArgumentParser(prog="promote", usage=(__doc__ or "").split("usage: ")[1].split("\n")[0])
    parser.add_argument("pushed")
    parser.add_argument("name")
    for option in ("--commit", "--committed"):
        parser.add_argument(option, required=True)
    parser.add_argument("--back", action="store_true")
    asked = parser.parse_args()
    repository, _, tag = asked.name.rpartition(":")
    try:
        with logged_in(check_same(repository, asked.pushed)):
            digest = promote(asked.pushed, Repository(repository), tag, asked.commit, asked.committed, asked.back)
    except RegistryError as error:
        print(f"promote: {error}", file=sys.stderr)
        return error.code
    print(f"promote: {asked.name} is {digest}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
