"""The releases of the template: its tags vX.Y.Z, or the commits that changed VERSION where it has none."""

from __future__ import annotations

import io
import os
import re
import tarfile
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from .git import Git, UpdateError

SHORT = {"gh:": "https://github.com/", "gl:": "https://gitlab.com/"}


def number(name: str) -> Version:
    """Return the version that v1.2.3, 1.2.3 or `git describe` names, the lowest one for any other name."""
    try:
        return Version(name.partition("-")[0])
    except InvalidVersion:
        return Version("0")


def address(source: str) -> str:
    """Return the address that git understands for a template in Copier's words (gh:owner/name). Raises UpdateError."""
    if source.startswith("-") or "::" in source or not source.strip():
        raise UpdateError(f"{source!r} is not the address of a template")
    for short, host in SHORT.items():
        if source.startswith(short):
            return f"{host}{source.removeprefix(short).strip('/').removesuffix('.git')}.git"
    return source.removeprefix("git+")


@dataclass(frozen=True)
class Releases:
    """The template, cloned once; each release that is needed is unpacked once next to the clone."""

    git: Git
    commits: dict[str, str]  # vX.Y.Z -> commit, oldest first

    @property
    def newest(self) -> str:
        """Return the name of the newest release."""
        return list(self.commits)[-1]

    def commit(self, name: str, recorded: str = "") -> str:
        """Return the commit of what a child follows: the recorded one, else that of its name. Raises UpdateError."""
        for known in (recorded, self.commits.get(name, ""), name):
            if re.fullmatch(r"\w[\w.+-]*", known):
                found = self.git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{known}^{{commit}}")
                if not found.returncode:
                    return found.stdout.decode().strip()
        raise UpdateError(f"the template has no version {name}, which this repository follows: ask its owners")

    def contains(self, commit: str, name: str) -> bool:
        """Return whether a commit of the template contains the release `name` already."""
        return self.git.run("merge-base", "--is-ancestor", self.commits[name], commit).returncode == 0

    def unpacked(self, commit: str) -> Path:
        """Return a folder with the files of a commit: Copier renders from it without cloning again."""
        place = self.git.folder.parent / commit
        if not place.is_dir():
            with tempfile.TemporaryDirectory(dir=place.parent) as half:
                with tarfile.open(fileobj=io.BytesIO(self.git.bytes("archive", commit))) as archive:
                    archive.extractall(Path(half, "files"), filter="data")
                with suppress(OSError):  # another process was first
                    os.rename(Path(half, "files"), place)
        return place


def version_commits(git: Git, tip: str = "HEAD", prepared: str = "") -> dict[Version, str]:
    """Return the commit of each version that VERSION named on the way to `tip`, oldest version first.

    The newest commit of a version counts. While VERSION is X.Y.Z.devN, X.Y.Z and what is later are not released.
    `prepared` is the text of VERSION where the work tree differs from `tip`.
    """
    found: dict[Version, str] = {}
    for commit in git.text("rev-list", "--no-merges", tip, "--", "VERSION").splitlines():
        version = number(git.run("show", f"{commit}:VERSION").stdout.decode(errors="replace").strip())
        if version > Version("0") and not version.is_devrelease:
            found.setdefault(version, commit)
    text = prepared or git.run("show", f"{tip}:VERSION").stdout.decode(errors="replace")
    making = number(text.strip())
    kept = {version: commit for version, commit in found.items() if not making.is_devrelease or version < making}
    return dict(sorted(kept.items()))


def find_releases(source: str, folder: Path, git: Git | None = None) -> Releases:
    """Clone the template into `folder` and list its releases. Raises UpdateError where it has none."""
    place = folder / "template.git"
    (git or Git(folder)).text("clone", "--quiet", "--bare", "--template=", "--", address(source), str(place))
    bare = Git(place)
    rows = bare.text("for-each-ref", "--format=%(refname:short) %(*objectname) %(objectname)", "refs/tags/v*")
    tags = {row.split()[0]: row.split()[1] for row in rows.splitlines()}
    found = {name: commit for name, commit in tags.items() if re.fullmatch(r"v\d+\.\d+\.\d+", name)}
    if not found and bare.run("rev-parse", "--verify", "--quiet", "HEAD").returncode == 0:
        written = version_commits(bare)
        found = {f"v{version}": commit for version, commit in written.items() if not version.is_prerelease}
    if not found:
        raise UpdateError("the template has no release: no tag vX.Y.Z, and no commit that changes VERSION")
    return Releases(bare, dict(sorted(found.items(), key=lambda item: number(item[0]))))
