"""Bring the fixes of the template into this repository, and lose no edit.

The update is what the template changed between two releases, merged by git like a commit. Where both sides changed
the same lines, the file is an ordinary conflict. The result is staged and not committed. If the update is killed,
`git reset --hard && git clean -fd` restores the last commit.

Exit codes: 0 updated, or nothing to do; 1 error, nothing was changed; 2 wrong usage; 3 updated, with conflicts or a
to-do list; 4 updated, and an ignore rule hides a file that the update added (it is named and staged).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from .changelog import link
from .git import Git, UpdateError
from .merge import Update, make_update
from .releases import Releases, find_releases, number
from .render import Step, read_answers
from .report import as_data, as_text

AGAIN = "UPDATE_WITH_NEWEST"  # set for the updater of the newer release, so that it does not look for another one


def check_clean(git: Git) -> None:
    """Raise UpdateError unless the repository has a commit and no uncommitted changes."""
    if git.run("rev-parse", "--verify", "--quiet", "HEAD").returncode:
        raise UpdateError(f"{git.folder} is not a git repository with a commit: git init, add and commit first")
    rows = git.paths("status", "--porcelain", "-z", "--untracked-files=all")
    if rows:
        names = ", ".join(row[3:] for row in rows[:5]) + (f" and {len(rows) - 5} more" if len(rows) > 5 else "")
        raise UpdateError(f"there are uncommitted changes: commit or stash them first ({names})")
    unseen = [row[2:] for row in git.paths("ls-files", "-v", "-z") if row[0] == "S" or row[0].islower()]
    if unseen:
        raise UpdateError(
            f"git was told not to look at {unseen[0]}: git update-index --no-assume-unchanged "
            "--no-skip-worktree, and git sparse-checkout disable, show its changes"
        )


def template_of(child: Path, source: str) -> str:
    """Return the address of the template; a relative path is made absolute. Raises UpdateError."""
    if "://" in source or source.startswith(("gh:", "gl:", "git+", "/")) or ("@" in source and ":" in source):
        return source
    for place in (child / source, child.parent / source, Path(source).expanduser()):
        if (place / "copier.yml").is_file() or (place / "objects").is_dir():
            return str(place.resolve())
    raise UpdateError(f"{source}, the template's address in the answers, leads nowhere: give it with --template")


def step_of(git: Git, releases: Releases, options: argparse.Namespace, source: str) -> Step | None:
    """Return from which version to which, None where there is nothing to do. Raises UpdateError."""
    old = str(read_answers(git)["_commit"])
    new = f"v{options.to.removeprefix('v')}" if options.to else releases.newest
    if new not in releases.commits:
        raise UpdateError(f"the template has no release {new}: it has {', '.join(releases.commits)}")
    is_later = number(old) > number(new)
    if old not in releases.commits and not is_later:  # `git describe` or a hash: the template was used between releases
        is_later = releases.contains(releases.commit(old), new)
    if is_later and options.to:
        raise UpdateError(f"{new} is older than {old}, which this repository follows: an update does not go back")
    new = old if is_later and old in releases.commits else new
    if (new == old or is_later) and not options.answer and not source:
        return None
    return Step(old, new, dict(options.answer), source)


def newer_updater(releases: Releases, step: Step, folder: Path) -> str:
    """Write the runtime of the release to update to into `folder` and return its path, "" where this one is as new."""
    if os.environ.get(AGAIN):
        return ""
    try:
        own = metadata.version("gpu-repo-runtime")
    except metadata.PackageNotFoundError:  # it runs from source
        return ""
    commit = releases.commit(step.new)
    for path in releases.git.text("ls-tree", "-r", "--name-only", commit, "--", "templates/").splitlines():
        name = path.rpartition("/")[2]
        if name.startswith("gpu_repo_runtime-") and number(name.split("-")[1]) > number(own):
            (folder / name).write_bytes(releases.git.bytes("cat-file", "blob", f"{commit}:{path}"))
            return str(folder / name)
    return ""


@contextmanager
def work_place(git: Git, dry_run: bool) -> Iterator[Git]:
    """Give the repository itself, or a scratch work tree of its last commit."""
    if not dry_run:
        yield git
        return
    with tempfile.TemporaryDirectory(prefix="update-") as name:
        tree, prefix = Path(name, "tree"), git.text("rev-parse", "--show-prefix")
        git.text("worktree", "add", "--quiet", "--detach", str(tree), "HEAD")
        try:
            yield Git(tree / prefix)
        finally:
            git.run("worktree", "remove", "--force", str(tree))


def exit_code(update: Update) -> int:
    """Return the exit code of an update that was made."""
    return 3 if update.conflicts or update.to_do else 4 if update.hidden else 0


def run(child: Path, options: argparse.Namespace) -> int:
    """Update `child`, print what happened and return the exit code. Raises UpdateError."""
    git = Git(child)
    check_clean(git)
    answers = read_answers(git)
    template = template_of(child, options.template or answers["_src_path"])
    moved = template if template != answers["_src_path"] else ""
    with tempfile.TemporaryDirectory(prefix="update-") as name:
        place = Path(name)
        releases = find_releases(template, place, Git(place, interactive=sys.stdin.isatty()))
        step = step_of(git, releases, options, moved)
        if step is None:
            data = {"from": answers["_commit"], "to": None, "code": 0, "files": []}
            return print_result(options, data, f"nothing to do: {answers['_commit']} is the newest release")
        if updater := newer_updater(releases, step, place):
            command = [sys.executable, "-m", "gpu_repo_runtime.update", *sys.argv[1:]]
            return subprocess.run(
                command, env={**os.environ, "PYTHONPATH": updater, AGAIN: "1"}, check=False
            ).returncode
        with work_place(git, options.dry_run) as there:
            update = make_update(there, releases, step, lock=not options.no_lock)
            text = as_text(update, link(template, step.new), options.dry_run)
            if options.diff:
                text += "\n\n" + there.text("diff", "--binary", "HEAD")
            return print_result(options, as_data(update, exit_code(update), options.dry_run), text)


def print_result(options: argparse.Namespace, data: dict[str, Any], text: str) -> int:
    """Print a result as the options say and return its exit code."""
    print(json.dumps(data, indent=2) if options.json else text)
    return int(data["code"])


def answer(text: str) -> tuple[str, str]:
    """Return question and answer of `question=answer`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not an answer: expected question=answer")
    return name, value


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    made = argparse.ArgumentParser("update", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--to", metavar="vX.Y.Z", help="the release to update to (default: the newest)")
    made.add_argument("--answer", type=answer, action="append", default=[], metavar="QUESTION=ANSWER")
    made.add_argument("--template", metavar="ADDRESS", help="the template's new address, from now on")
    made.add_argument("--dry-run", action="store_true", help="change nothing, print the same")
    made.add_argument("--diff", action="store_true", help="print the changed lines too")
    made.add_argument("--no-lock", action="store_true", help="leave the locks as they are")
    made.add_argument("--json", action="store_true", help="print for a program")
    made.add_argument("--repository", type=Path, default=Path(), help=argparse.SUPPRESS)
    return made


def main() -> int:
    """Update the repository and return the exit code."""
    options = parser().parse_args()
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    try:
        return run(options.repository.resolve(), options)
    except UpdateError as error:
        reason = str(error)
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}"
    except KeyboardInterrupt:
        reason = "stopped: git status shows whether something was written; git reset --hard restores the last commit"
    if options.json:
        print(json.dumps({"code": 1, "error": reason}, indent=2))
    print(f"update: {reason}", file=sys.stderr)
    return 1
