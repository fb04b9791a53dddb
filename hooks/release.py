"""Release a version of the family, and set the tags that a clone lacks.

  cut X.Y.Z   check the changelog and what children would see, change VERSION alone, commit and tag it
  tags        tag every release that has no tag here, where the commits of VERSION say it is

Exit codes: 0 done, 1 refused (the reason is named, nothing is changed but where origin refuses a push), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import runtime_source  # noqa: F401

# isort: split
from git_calls import call, cause, git
from packaging.version import InvalidVersion, Version
from releases import HistoryError, written

ROOT = Path(__file__).resolve().parent.parent


class ReleaseError(Exception):
    """The version cannot be released; the message says why and what to do."""


def own_git(repository: Path, *arguments: str) -> None:
    """Run git with the hooks of the person who releases: it is their commit, tag and push. Raises ReleaseError."""
    done = subprocess.run(["git", *arguments], cwd=repository, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"git {arguments[0]}: {cause(done.stderr)}")


def commit_of(repository: Path, tag: str) -> str:
    """Return the commit of a tag, "" if it is missing."""
    done = call(repository, "rev-parse", "--verify", "--quiet", f"refs/tags/{tag}^{{commit}}")
    return done.stdout.decode().strip()


def set_tags(repository: Path) -> None:
    """Set the tags that are missing and print which. Raises ReleaseError for a tag that is on another commit."""
    missing = {}
    for version, commit in written(repository).items():
        there = commit_of(repository, f"v{version}")
        if not there:
            missing[f"v{version}"] = commit
        elif there != commit:
            raise ReleaseError(
                f"the tag v{version} is not on the commit that changed VERSION ({commit[:10]}): look at both, a tag "
                "that was published is never moved"
            )
    for name, commit in missing.items():
        own_git(repository, "tag", "--message", f"Release {name}", name, commit)
    print(f"tagged {', '.join(missing)}" if missing else "every release has its tag")


def check(repository: Path, version: Version) -> None:
    """Raise ReleaseError unless the repository is ready for a release of `version`."""
    if git(repository, "status", "--porcelain"):
        raise ReleaseError("there are uncommitted changes: commit them first, the release changes VERSION alone")
    if version.is_devrelease or version.is_postrelease or version.local or len(version.release) != 3:
        raise ReleaseError(f"{version} is not a release: it needs X.Y.Z, or X.Y.ZrcN for a canary")
    if version in written(repository) or commit_of(repository, f"v{version}"):
        raise ReleaseError(f"{version} is released already: take the next version")
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("release_check.py")), "--once"]
    done = subprocess.run([*command, "--version", str(version), "--repository", str(repository)], check=False)
    if done.returncode:
        raise ReleaseError("the release check rejects it, for the reasons above")


def cut(repository: Path, text: str, push: bool) -> None:
    """Release a version: VERSION alone in its commit, and the tag on it. Raises ReleaseError."""
    try:
        version = Version(text)
    except InvalidVersion as error:
        raise ReleaseError(f"{text!r} is not a version: it needs X.Y.Z, for example VERSION=1.2.3") from error
    branch = call(repository, "symbolic-ref", "--quiet", "--short", "HEAD").stdout.decode().strip()
    if push and not branch:
        raise ReleaseError("no branch is checked out, so there is none to push: git switch BRANCH first")
    check(repository, version)
    write(repository, version)
    print(f"released {version}: {git(repository, 'rev-parse', '--short', 'HEAD').strip()}, tag v{version}")
    command = ("push", "--atomic", "origin", "HEAD", f"v{version}")
    if not push:
        print(f"push it: git {' '.join(command)}")
        return
    try:
        own_git(repository, *command)
    except ReleaseError as error:
        raise ReleaseError(
            f"{version} is released here, and origin did not take it: {error}; fix that, then git {' '.join(command)}, "
            f"or take it back: git tag -d v{version} && git reset --keep HEAD~1"
        ) from error
    print(f"pushed {branch} and v{version} to origin")


def write(repository: Path, version: Version) -> None:
    """Commit the version and tag it, both or neither. Raises ReleaseError."""
    before = git(repository, "rev-parse", "HEAD").strip()
    try:
        (repository / "VERSION").write_text(f"{version}\n", encoding="utf-8")
        own_git(repository, "commit", "--quiet", f"--message=Release {version}", "--", "VERSION")
        own_git(repository, "tag", "--message", f"Release v{version}", f"v{version}")
    except BaseException:
        git(repository, "reset", "--quiet", "--hard", before)  # nothing else was changed: `check` saw a clean tree
        raise


def main() -> int:
    """Run one command and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repository", type=Path, default=ROOT, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("tags")
    one = commands.add_parser("cut")
    one.add_argument("version")
    one.add_argument("--push", action="store_true", help="push the commit and the tag to origin")
    options = parser.parse_args()
    try:
        if options.command == "tags":
            set_tags(options.repository)
        else:
            cut(options.repository, options.version, options.push)
    except (ReleaseError, HistoryError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"release: git: {cause(error.stderr)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
