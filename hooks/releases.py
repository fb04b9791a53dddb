"""Which versions of the family were released: a release is the commit that changes VERSION; its tag is vX.Y.Z.

As a program: tag every release that has no tag in the current folder's repository.
"""

import subprocess
import sys
from pathlib import Path

import runtime_source  # noqa: F401

# isort: split
from gpu_repo_runtime.update.git import Git, UpdateError
from gpu_repo_runtime.update.releases import version_commits
from packaging.version import Version


def order(version: str) -> tuple[int, ...]:
    """Return the numbers of X.Y.Z, X.Y.Z.devN, X.Y.ZrcN or vX.Y.Z, to compare versions by. Raises InvalidVersion."""
    return (*Version(version).release, 0, 0)[:3]


def current(repository: Path) -> str:
    """Return what VERSION says in the work tree."""
    return (repository / "VERSION").read_text(encoding="utf-8").strip()


def written(repository: Path) -> dict[Version, str]:
    """Return the commit of each version that VERSION named, pre-releases included, oldest version first.

    Raises UpdateError for a shallow clone, which does not contain every release.
    """
    git = Git(repository)
    if git.text("rev-parse", "--is-shallow-repository") == "true":
        raise UpdateError(f"{repository} is a shallow clone without all releases: git fetch --unshallow")
    return version_commits(git)


def released(repository: Path) -> dict[str, str]:
    """Return the commit of each released version, oldest first, without pre-releases. Raises UpdateError."""
    return {str(version): commit for version, commit in written(repository).items() if not version.is_prerelease}


def next_version(repository: Path) -> str:
    """Return the version that the work tree becomes: the one VERSION prepares, else the next patch."""
    text = current(repository)
    plain = Version(text).base_version
    if text != plain or text not in released(repository):
        return plain
    major, minor, patch = order(text)
    return f"{major}.{minor}.{patch + 1}"


def main() -> int:
    """Tag the releases that have no tag; return the exit code."""
    try:
        there = Git(Path()).text("tag").splitlines()
        missing = {f"v{version}": commit for version, commit in written(Path()).items() if f"v{version}" not in there}
    except UpdateError as error:
        print(f"tags: {error}", file=sys.stderr)
        return 1
    for name, commit in missing.items():
        subprocess.run(["git", "tag", "--message", f"Release {name}", name, commit], check=True)
    print(f"tagged {', '.join(missing)}" if missing else "every release has its tag")
    return 0


if __name__ == "__main__":
    sys.exit(main())
