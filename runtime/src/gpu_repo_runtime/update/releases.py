"""The releases of the template: its tags vX.Y.Z, or the commits that changed VERSION where it has none."""

import os
import re
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from .git import Git, UpdateError


def number(name: str) -> Version:
    """Return the version that v1.2.3, 1.2.3 or `git describe` names, the lowest one for any other name."""
    try:
        return Version(name.partition("-")[0])
    except InvalidVersion:
        return Version("0")


@dataclass(frozen=True)
class Releases:
    """The template, cloned once; each release that is needed is unpacked once next to the clone."""

    git: Git
    names: list[str]  # vX.Y.Z, oldest first

    def named(self, version: str | None) -> str:
        """Return the name of a release, of the newest where none is given. Raises UpdateError."""
        name = f"v{version.removeprefix('v')}" if version else self.names[-1]
        if name not in self.names:
            raise UpdateError(f"the template has no release {name}: it has {', '.join(self.names)}")
        return name

    def unpacked(self, name: str) -> Path:
        """Return a folder with a release, or with what `git describe` calls a commit between two. Raises UpdateError.

        Copier renders from it without cloning again.
        """
        found = self.git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        if found.returncode:
            raise UpdateError(f"the template has no version {name}, which this repository follows: ask its owners")
        commit = found.stdout.decode().strip()
        place = self.git.folder.parent / commit
        if not place.is_dir():
            with tempfile.TemporaryDirectory(dir=place.parent) as half:
                self.git.text("archive", "--output", f"{half}/files.tar", commit)
                shutil.unpack_archive(f"{half}/files.tar", f"{half}/files", filter="data")
                with suppress(OSError):  # another process was first
                    os.rename(Path(half, "files"), place)
        return place


def version_commits(git: Git) -> dict[Version, str]:
    """Return the commit of each version that VERSION named, oldest version first; the newest commit of one counts.

    While VERSION is X.Y.Z.devN, X.Y.Z and what is later are not released.
    """
    found: dict[Version, str] = {}
    for commit in git.text("rev-list", "--no-merges", "HEAD", "--", "VERSION").splitlines():
        version = number(git.file("VERSION", commit).strip())
        if version > Version("0") and not version.is_devrelease:
            found.setdefault(version, commit)
    making = number(git.file("VERSION").strip())
    return {version: found[version] for version in sorted(found) if not making.is_devrelease or version < making}


def find_releases(source: str, git: Git) -> Releases:
    """Clone the template into the folder of `git` and list its releases. Raises UpdateError where it has none."""
    bare = Git(git.folder / "template.git")
    git.text("clone", "--quiet", "--bare", "--template=", "--", source, str(bare.folder))
    if not bare.text("tag", "--list", "v*") and bare.run("rev-parse", "--verify", "HEAD").returncode == 0:
        for version, commit in version_commits(bare).items():
            bare.text("tag", "--no-sign", f"v{version}", commit)
    tags = bare.text("tag", "--list", "--sort=version:refname").splitlines()
    names = [name for name in tags if re.fullmatch(r"v\d+\.\d+\.\d+", name) and f"withdrawn/{name}" not in tags]
    if not names:
        raise UpdateError("the template has no release: no tag vX.Y.Z, and no commit that changes VERSION")
    return Releases(bare, names)
