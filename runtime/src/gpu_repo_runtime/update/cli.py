"""Bring the fixes of the template into this repository, and lose no edit.

Exit codes: 0 updated, or nothing to do; 1 error, nothing was changed; 2 wrong usage; 3 updated, with conflicts or a
to-do list; 4 updated, and an ignore rule hides a file that the update added (it is named and staged).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

from .git import Git, UpdateError, clean
from .merge import Update, make_update
from .releases import Releases, find_releases, number
from .render import read_answers


def newer_updater(releases: Releases, new: str) -> Path | None:
    """Return the runtime's wheel of the release to update to, None where this one is as new."""
    own = [one.version for one in metadata.distributions(name="gpu-repo-runtime")]  # none where it runs from source
    wheels = releases.unpacked(new).glob("templates/**/gpu_repo_runtime-*.whl") if own else ()
    return next((wheel for wheel in wheels if number(wheel.name.split("-")[1]) > number(own[0])), None)


def run(options: argparse.Namespace, place: Path) -> tuple[Update, str]:
    """Update the repository; return what was done, and its text for a person. Raises UpdateError."""
    git = Git(options.repository.resolve())
    if rows := git.paths("status", "--porcelain", "-z", "--untracked-files=all"):
        raise UpdateError(f"there are uncommitted changes: commit or stash them first ({', '.join(rows)[:200]})")
    answers = read_answers(git)
    old, releases = answers["_commit"], find_releases(answers["_src_path"], Git(place))
    old = f"v{releases.git.file('VERSION', old).strip()}-0-g{old}" if old.isalnum() else old  # as `git describe` does
    new, given = releases.named(options.to), dict(text.partition("=")[::2] for text in options.answer)
    if options.to and number(new) < number(old):
        raise UpdateError(f"{new} is older than {old}, which this repository follows: an update does not go back")
    new = max(old, new, key=number)  # a repository that follows a commit after the newest release stays there
    if new == old and not given:
        mark = releases.git.text("tag", "--list", f"withdrawn/{old}") and " (withdrawn: the next release reverts it)"
        return Update(old, new), f"nothing to do: this repository is at {old}{mark}, the newest is {releases.names[-1]}"
    if updater := newer_updater(releases, new):
        command = [sys.executable, "-X", "utf8", "-m", "gpu_repo_runtime.update", *sys.argv[1:]]
        sys.exit(subprocess.run(command, env={**os.environ, "PYTHONPATH": str(updater)}).returncode)
    if options.dry_run:
        git.text("clone", "--quiet", "--shared", "--", str(git.folder), str(place / "child"))
        git = Git(place / "child")
    update = make_update(git, releases, old, new, given, lock=not options.no_lock)
    place_of = clean(answers["_src_path"])
    link = f"{place_of.removesuffix('.git')}/blob/{new}/CHANGELOG.md" if place_of.startswith("https://") else ""
    text = update.text(link or f"CHANGELOG.md of {place_of} at {new}", options.dry_run)
    return update, text + ("\n\n" + git.text("diff", "--binary", "HEAD") if options.diff else "")


def main() -> int:
    """Update the repository and return the exit code."""
    made = argparse.ArgumentParser("update", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--to", metavar="vX.Y.Z", help="the release to update to (default: the newest)")
    made.add_argument("--answer", action="append", default=[], metavar="QUESTION=ANSWER")
    made.add_argument("--dry-run", action="store_true", help="change nothing, print the same")
    made.add_argument("--diff", action="store_true", help="print the changed lines too")
    made.add_argument("--no-lock", action="store_true", help="leave the locks as they are")
    made.add_argument("--json", action="store_true", help="print for a program")
    made.add_argument("--repository", type=Path, default=Path(), help=argparse.SUPPRESS)
    options = made.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="update-") as name:
            update, text = run(options, Path(name))
    except (UpdateError, OSError) as error:
        text = clean(str(error))
        print(f"update: {text}", file=sys.stderr)
        if options.json:
            print(json.dumps({"code": 1, "error": text}))
        return 1
    print(json.dumps({"code": update.code, **asdict(update)}, indent=2) if options.json else text)
    return update.code
