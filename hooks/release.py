"""Release a version of the family, and set the tags that a clone lacks.

  cut X.Y.Z   check the changelog and what children would see, change VERSION alone, commit and tag it
  tags        tag every release that has no tag here, where the commits of VERSION say it is

Exit codes: 0 done, 1 refused (the reason is named, nothing is changed but where origin refuses a push), 2 wrong usage.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import runtime_source  # noqa: F401

# isort: split
from git_calls import call, cause, git
from gpu_repo_runtime.update.git import UpdateError
from packaging.version import Version
from releases import written

ROOT = Path(__file__).resolve().parent.parent


def own_git(repository: Path, *arguments: str) -> None:
    """Run git with the hooks of the person who releases: it is their commit, tag and push. Raises UpdateError."""
    done = subprocess.run(["git", *arguments], cwd=repository, check=False, capture_output=True, text=True)
    if done.returncode:
        raise UpdateError(f"git {arguments[0]}: {cause(done.stderr)}")


def set_tags(repository: Path) -> None:
    """Set the tags that are missing and print which. Raises UpdateError for a tag that is on another commit."""
    rows = git(repository, "for-each-ref", "--format=%(refname:lstrip=2) %(*objectname)%(objectname)", "refs/tags")
    tags = {name: commits[:40] for name, commits in map(str.split, rows.splitlines())}
    missing = {f"v{one}": commit for one, commit in written(repository).items() if tags.get(f"v{one}") != commit}
    if moved := sorted(missing.keys() & tags.keys()):
        raise UpdateError(f"the tag {moved[0]} is not on the commit that changed VERSION: a published tag never moves")
    for name, commit in missing.items():
        own_git(repository, "tag", "--message", f"Release {name}", name, commit)
    print(f"tagged {', '.join(missing)}" if missing else "every release has its tag")


def check(repository: Path, text: str, push: bool) -> Version:
    """Return the version, if the repository is ready for its release. Raises UpdateError."""
    if not re.fullmatch(r"v?\d+\.\d+\.\d+(rc\d+)?", text):
        raise UpdateError(f"{text!r} is not a release: it needs X.Y.Z (VERSION=1.2.3), or X.Y.ZrcN for a canary")
    version = Version(text)
    if push and call(repository, "symbolic-ref", "--quiet", "HEAD").returncode:
        raise UpdateError("no branch is checked out, so there is none to push: git switch BRANCH first")
    if changed := git(repository, "status", "--porcelain").split("\n", 1)[0]:
        raise UpdateError(f"not committed: {changed[3:]}: commit every change first, the release changes VERSION alone")
    if version in written(repository) or git(repository, "tag", "--list", f"v{version}"):
        raise UpdateError(f"{version} is released already: take the next version")
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("release_check.py"))]
    if subprocess.run([*command, "--version", str(version), "--repository", str(repository)], check=False).returncode:
        raise UpdateError("the release check rejects it, for the reasons above")
    return version


def cut(repository: Path, text: str, push: bool) -> None:
    """Release a version: VERSION alone in its commit, and the tag on it, both or neither. Raises UpdateError."""
    version = check(repository, text, push)
    before = git(repository, "rev-parse", "HEAD").strip()
    try:
        (repository / "VERSION").write_text(f"{version}\n", encoding="utf-8")
        own_git(repository, "commit", "--quiet", f"--message=Release {version}", "--", "VERSION")
        own_git(repository, "tag", "--message", f"Release v{version}", f"v{version}")
    except BaseException:
        git(repository, "reset", "--quiet", "--hard", before)  # nothing else was changed: `check` saw a clean tree
        raise
    print(f"released {version}: {git(repository, 'rev-parse', '--short', 'HEAD').strip()}, tag v{version}")
    command = ("push", "--atomic", "origin", "HEAD", f"v{version}")
    if push:
        try:
            own_git(repository, *command)
        except UpdateError as error:
            back = f"take it back by git tag -d v{version} && git reset --keep HEAD~1"
            raise UpdateError(
                f"{error}; {version} is released here alone: git {' '.join(command)}, or {back}"
            ) from error
    else:
        print(f"push it: git {' '.join(command)}")


def main() -> int:
    """Run one command and return the exit code."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("release", description=__doc__, formatter_class=formatter)
    parser.add_argument("command", choices=["cut", "tags"])
    parser.add_argument("version", nargs="?", default="")
    parser.add_argument("--push", action="store_true", help="push the commit and the tag to origin")
    parser.add_argument("--repository", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        if options.command == "tags":
            set_tags(options.repository)
        else:
            cut(options.repository, options.version, options.push)
    except (UpdateError, subprocess.CalledProcessError) as error:
        print(f"release: {cause(getattr(error, 'stderr', '') or str(error))}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
