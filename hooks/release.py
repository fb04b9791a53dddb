"""Release a version of the family, and set the tags that a clone lacks.

  cut X.Y.Z   check the changelog and what children would see, change VERSION alone, commit and tag it
  tags        tag every release that has no tag here, where the commits of VERSION say it is

Exit codes: 0 done, 1 refused (the reason is named, nothing is changed but where origin refuses a push), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
from pathlib import Path

import runtime_source  # noqa: F401

# isort: split
from git_calls import call, cause, git
from packaging.version import InvalidVersion, Version
from releases import HistoryError, current, tags, written

ROOT = Path(__file__).resolve().parent.parent


class ReleaseError(Exception):
    """The version cannot be released; the message says why and what to do."""


def own_git(repository: Path, *arguments: str) -> None:
    """Run git with the hooks of whoever releases: it is their commit, tag and push. Raises CalledProcessError."""
    subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True, text=True)


def asked(command: list[str]) -> str:
    """Return what git was asked to do: the first word that is not a setting."""
    return next(word for word in command[1:] if word != "-c" and not word.startswith("core."))


def newest_section(changelog: str) -> str:
    """Return the version of the newest section of a changelog; one called Unreleased may stand above it."""
    headings = re.findall(r"(?m)^## \[?v?([^\]\s]+)", changelog)
    return next((heading for heading in headings if heading.lower() != "unreleased"), "")


def missing_tags(repository: Path) -> dict[str, str]:
    """Return the tags that are missing and their commits. Raises ReleaseError for a tag that is somewhere else."""
    there, missing = tags(repository), {}
    for version, commit in written(repository).items():
        if version not in there:
            missing[f"v{version}"] = commit
        elif commit not in there[version].values():
            name = next(iter(there[version]))
            raise ReleaseError(
                f"the tag {name} is not on the commit that changed VERSION ({commit[:10]}): look at both, a tag that "
                "was published is never moved"
            )
    return missing


def set_tags(repository: Path) -> None:
    """Set the tags that are missing and say which."""
    missing = missing_tags(repository)
    for name, commit in missing.items():
        tag(repository, name, commit)
    print(f"tagged {', '.join(missing)}" if missing else "every release has its tag")


def check(repository: Path, version: Version) -> None:
    """Raise ReleaseError unless the repository is ready for a release of `version`."""
    if git(repository, "status", "--porcelain"):
        raise ReleaseError("there are uncommitted changes: commit them first, the release changes VERSION alone")
    if version.is_devrelease or version.is_postrelease or version.local or len(version.release) != 3:
        raise ReleaseError(f"{version} is not a release: it needs X.Y.Z, or X.Y.ZrcN for a canary")
    known = written(repository)
    if version in known or version in tags(repository):
        raise ReleaseError(f"{version} is released already: take the next version")
    if known and version < max(known):
        raise ReleaseError(f"{version} is older than {max(known)}, which is released")
    section = newest_section((repository / "CHANGELOG.md").read_text(encoding="utf-8"))
    if section != str(version) and not (version.is_prerelease and section in ("", version.base_version)):
        raise ReleaseError(
            f"the newest section of CHANGELOG.md is {section or 'missing'}: it needs '## {version}', with what the "
            "update brings for owners of children"
        )


def release_check(repository: Path, version: Version) -> None:
    """Run the release check, unless it passed for the same files. Raises ReleaseError if it rejects them."""
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
    check(repository, version)
    branch = branch_of(repository) if push else ""
    write(repository, version)
    print(f"released {version}: {git(repository, 'rev-parse', '--short', 'HEAD').strip()}, tag v{version}")
    if not push:
        print(f"push it: git push --atomic origin HEAD v{version}")
        return
    try:
        own_git(repository, "push", "--quiet", "--atomic", "origin", branch, f"v{version}")
    except subprocess.CalledProcessError as error:
        raise ReleaseError(
            f"{version} is released here, and origin did not take it: {cause(error.stderr)}; fix that, then "
            f"git push --atomic origin {branch} v{version}, or take it back: git tag -d v{version} && "
            "git reset --keep HEAD~1"
        ) from error
    print(f"pushed {branch} and v{version} to origin")


def branch_of(repository: Path) -> str:
    """Return the branch that is pushed. Raises ReleaseError where none is checked out."""
    try:
        return git(repository, "symbolic-ref", "--short", "HEAD").strip()
    except subprocess.CalledProcessError as error:
        raise ReleaseError("no branch is checked out, so there is none to push: git switch BRANCH first") from error


def write(repository: Path, version: Version) -> None:
    """Commit the version and tag it, both or neither. Raises ReleaseError."""
    release_check(repository, version)
    before, commit = current(repository), git(repository, "rev-parse", "HEAD").strip()
    place = repository / "VERSION"
    try:
        place.write_text(f"{version}\n", encoding="utf-8")
        own_git(repository, "commit", "--quiet", f"--message=Release {version}", "--", "VERSION")
        tag(repository, f"v{version}", "HEAD")
    except BaseException:
        if git(repository, "rev-parse", "HEAD").strip() != commit:
            git(repository, "reset", "--quiet", commit)
        place.write_text(f"{before}\n", encoding="utf-8")
        raise


def tag(repository: Path, name: str, commit: str) -> None:
    """Set a tag; whoever signs tags would be asked for a message without one."""
    signs = call(repository, "config", "--type=bool", "--get", "tag.gpgSign").stdout.strip() == b"true"
    own_git(repository, "tag", *(["--message", f"Release {name}"] if signs else []), name, commit)


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
    for number in (signal.SIGTERM, signal.SIGHUP):  # then what was begun is taken back, as with Ctrl-C
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        if options.command == "tags":
            set_tags(options.repository)
        else:
            cut(options.repository, options.version, options.push)
    except (ReleaseError, HistoryError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"release: git {asked(error.cmd)}: {cause(error.stderr)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
