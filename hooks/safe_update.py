"""Bring the fixes of the template into this repository, and lose no edit.

The update is made in a scratch work tree first; what it does to each file is shown, and only then written here.
Where the template changed the same lines as you, the file holds both between conflict markers. Where the template
renamed, dropped or switched off a file that you changed, your text is kept and the file is named.

Exit codes: 0 updated, or nothing to do; 3 updated with conflicts; 4 updated, and edits were at risk (kept, to be
looked at); 1 error, nothing was changed; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from copier import run_copy, run_update
from packaging.version import Version
from template_versions import Release, UpdateError, changes_between, last_line, release, version_of, versions
from update_outcome import ORDER, Outcome, Trees, changed_files, content, git, outcomes, put, unmerged_files

ANSWERS = ".copier-answers.yml"
OWNERSHIP = ".copier-ownership.yml"
CODES = {"conflict": 3, "at risk": 4}


@dataclass(frozen=True)
class Trial:
    """An update made in the scratch work tree `tree`; `outcomes` tells each file."""

    old: str
    new: Release
    tree: Path
    outcomes: list[Outcome]

    @property
    def code(self) -> int:
        """Return the exit code: 4 edits at risk, 3 conflicts, 0 neither."""
        return max((CODES.get(outcome.kind, 0) for outcome in self.outcomes), default=0)

    def commit_tree(self) -> str:
        """Return the git tree that holds the result, markers included, without touching the index."""
        with TemporaryDirectory() as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
            for step in (["read-tree", "HEAD"], ["add", "--all"], ["write-tree"]):
                done = subprocess.run(
                    ["git", *step], cwd=self.tree, env=os.environ | index, check=True, capture_output=True, text=True
                )
        return done.stdout.strip()

    def patch(self) -> str:
        """Return the whole change as a patch."""
        return git(self.tree, "diff", "--binary", "HEAD", self.commit_tree())


def read_answers(child: Path) -> dict[str, Any]:
    """Return the answers of a child. Raises UpdateError when they are not whole."""
    try:
        answers = yaml.safe_load((child / ANSWERS).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UpdateError(
            f"{child} has no {ANSWERS}: it was not made from a template, or the file was deleted"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UpdateError(f"{ANSWERS} cannot be read: restore it with 'git checkout' from a good commit") from error
    for key in ("_commit", "_src_path"):
        if not isinstance(answers, dict) or not isinstance(answers.get(key), str):
            raise UpdateError(f"{ANSWERS} lacks {key}: restore it with 'git checkout' from a good commit")
    return dict(answers)


def check_clean(child: Path) -> None:
    """Raise UpdateError unless `child` is the root of a git repository without uncommitted changes."""
    try:
        top = git(child, "rev-parse", "--show-toplevel").strip()
        git(child, "rev-parse", "--verify", "HEAD")
        dirty = git(child, "status", "--porcelain")
    except subprocess.CalledProcessError as error:
        raise UpdateError(f"{child} is no git repository with a commit: git init, add and commit first") from error
    if Path(top) != child.resolve():
        raise UpdateError(f"{child} is inside the repository {top}: run the update there")
    if dirty:
        raise UpdateError("there are uncommitted changes: commit or stash them first")


def choose(answers: dict[str, Any], to: str | None) -> str:
    """Return the tag to update to: `to`, else the newest version. Raises UpdateError."""
    known = versions(answers["_src_path"])
    current = answers["_commit"]
    if version_of(current) and current not in known.values():
        raise UpdateError(
            f"the template has no version {current} any more, which this repository follows: tell its owners"
        )
    if to is None:
        if not known:
            raise UpdateError(f"the template {answers['_src_path']} has no released version")
        return list(known.values())[-1]
    tag = known.get(version_of(to) or Version("0"))
    if tag is None:
        raise UpdateError(f"the template has no version {to}: there are {', '.join(known.values()) or 'none'}")
    low, high = version_of(current), version_of(tag)
    if low and high and high < low:
        raise UpdateError(f"{tag} is older than {current}, which this repository follows: Copier cannot go back")
    return tag


def check_given(given: dict[str, str], questions: tuple[str, ...]) -> None:
    """Raise UpdateError for an answer to a question that the template does not ask."""
    for name in given:
        if name not in questions:
            raise UpdateError(f"the template has no question {name!r}: it has {', '.join(questions)}")


def explain(error: Exception, answers: dict[str, Any], tag: str) -> str:
    """Return one line that says why Copier stopped."""
    line = last_line(getattr(error, "stderr", None) or str(error))
    missing = re.search(r'Question "(\w+)" is required', line)
    if not missing:
        return f"Copier cannot update to {tag}: {line}"
    name = missing[1]
    return (
        f"the answer {name}: {answers.get(name, 'none')} is not possible in {tag} any more; "
        f"read the changelog and give another one with --answer {name}=..."
    )


def owned(folder: Path, path: str) -> bool:
    """Tell whether the child's own list gives a file to its owner (seed), so that no fix of it exists."""
    try:
        listed = yaml.safe_load((content(folder, OWNERSHIP) or b"").decode() or "{}")
    except yaml.YAMLError:  # the list of version 0.1.0 cannot be read for a batch job
        listed = {}
    seeds = listed.get("seed") or {} if isinstance(listed, dict) else {}
    return any(path.startswith(seed) if seed.endswith("/") else Path(path).match(seed) for seed in seeds)


@contextmanager
def scratch(child: Path) -> Iterator[Path]:
    """Give a scratch work tree of the child's last commit and take it away again."""
    with TemporaryDirectory(prefix="update-") as folder:
        tree = Path(folder, "tree")
        git(child, "worktree", "add", "--quiet", "--detach", str(tree), "HEAD")
        try:
            yield tree
        finally:
            git(child, "worktree", "remove", "--force", str(tree))


@contextmanager
def trial(child: Path, to: str | None = None, given: dict[str, str] | None = None) -> Iterator[Trial | None]:
    """Make the update in a scratch work tree and give the result; None when there is nothing to do.

    `child` must be the root of a clean repository. Raises UpdateError, and changes nothing in `child`.
    """
    given = given or {}
    check_clean(child)
    answers = read_answers(child)
    source, old = answers["_src_path"], answers["_commit"]
    tag = choose(answers, to)
    if tag == old and not given:
        yield None
        return
    new = release(source, tag)
    check_given(given, new.questions)
    recorded = {name: value for name, value in answers.items() if not name.startswith("_")}
    with scratch(child) as tree, TemporaryDirectory(prefix="base-") as base, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run_copy(source, base, data=recorded, vcs_ref=old, defaults=True, quiet=True, overwrite=True)
            run_update(tree, data=given, vcs_ref=tag, defaults=True, quiet=True, overwrite=True, conflict="inline")
        except Exception as error:
            raise UpdateError(explain(error, answers, tag)) from error
        check_free(tree, child)
        found = outcomes(Trees(Path(base), child, tree, ANSWERS))
        seeds = [o for o in found if o.kind == "opted out" and owned(child, o.path)]
        yield Trial(old, new, tree, [outcome for outcome in found if outcome not in seeds])


def check_free(tree: Path, child: Path) -> None:
    """Raise UpdateError where the update brings a file that the child has outside of git, ignored by it."""
    tracked = set(git(child, "ls-files", "-z").split("\0"))
    for path in sorted(changed_files(tree) - tracked):
        if os.path.lexists(child / path):
            raise UpdateError(f"the template brings {path}, which is here and not in git: move it away first")


def write_back(trial: Trial, child: Path) -> None:
    """Write the result of the trial into the child; on an error the child is as it was. Raises UpdateError."""
    paths = sorted(changed_files(trial.tree))
    tracked = set(git(child, "ls-files", "-z").split("\0"))
    try:
        for path in paths:
            if os.path.lexists(trial.tree / path):
                put(child, path, trial.tree / path)
            else:
                (child / path).unlink(missing_ok=True)
        if unmerged_files(trial.tree):
            stages = git(trial.tree, "ls-files", "--unmerged")
            gone = "".join(f"0 {'0' * 40}\t{path}\n" for path in sorted(unmerged_files(trial.tree)))
            git(child, "update-index", "--index-info", stdin=gone + stages)
    except BaseException as error:
        for path in set(paths) - tracked:
            (child / path).unlink(missing_ok=True)
        git(child, "reset", "--quiet", "--hard")
        raise UpdateError(f"the update could not be written and was taken back: {error}") from error


def renew_locks(child: Path) -> str:
    """Resolve the locks again where they name another runtime than wheels/ holds now; return a line about it, or ""."""
    asked, lock = child / "wheels" / "requirements.in", child / "requirements.lock"
    if not asked.exists() or not lock.exists():
        return ""
    wheel = asked.read_text(encoding="utf-8").split(" @ ")[-1].strip()
    if f"@ {wheel} " in lock.read_text(encoding="utf-8"):
        return ""
    if not (child / ".venv" / "bin" / "uv").exists():
        return f"locks      do not name {wheel} yet: scripts/setup resolves them"
    done = subprocess.run(["scripts/lock"], cwd=child, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return f"locks      resolved again for {wheel}"
    return f"{done.stderr.strip()}\nlocks      do not name {wheel} yet (the reason stands above): run scripts/lock"


def told(trial: Trial, dry_run: bool) -> str:
    """Return what a person reads: versions, changelog, files."""
    lines = [f"{trial.old} -> {trial.new.tag}" + (" (dry run, nothing is changed)" if dry_run else "")]
    changes = changes_between(trial.new.changelog, trial.old, trial.new.tag)
    lines += ["", changes, ""] if changes else [""]
    for kind in ORDER:
        for outcome in (outcome for outcome in trial.outcomes if outcome.kind == kind):
            lines.append(f"{kind:<10} {outcome.path}" + (f": {outcome.note}" if outcome.note else ""))
    return "\n".join(lines if dry_run else [*lines, "", next_steps(trial)])


def next_steps(trial: Trial) -> str:
    """Return what the owner does after an update, in this order."""
    kinds = {outcome.kind for outcome in trial.outcomes}
    steps = ["settle the conflict markers and `git add` the files"] if "conflict" in kinds else []
    steps += ["look at what was at risk"] if "at risk" in kinds else []
    moved = any(o.path == "constraints.txt" and o.kind in ("updated", "merged") for o in trial.outcomes)
    steps += ["scripts/lock (the base image has other versions now)"] if moved else []
    return "next: " + ", ".join([*steps, "scripts/setup && scripts/test", "git commit"])


def as_json(trial: Trial | None, child: Path, dry_run: bool) -> dict[str, Any]:
    """Return the same for a program."""
    if trial is None:
        return {"from": read_answers(child)["_commit"], "to": None, "code": 0, "dry_run": dry_run, "files": []}
    files = [outcome.as_dict() for outcome in trial.outcomes]
    return {"from": trial.old, "to": trial.new.tag, "code": trial.code, "dry_run": dry_run, "files": files}


def update(child: Path, options: argparse.Namespace) -> int:
    """Update `child` as the options say, print what happened, return the exit code. Raises UpdateError."""
    with trial(child, options.to, dict(options.answer)) as made:
        if made is not None and not options.dry_run:
            write_back(made, child)
        locks = renew_locks(child) if made is not None and not options.dry_run and not options.no_lock else ""
        if locks:
            print(locks, file=sys.stderr)
        if options.json:
            print(json.dumps(as_json(made, child, options.dry_run), indent=2))
        elif made is None:
            print(f"nothing to do: {read_answers(child)['_commit']} is the newest version")
        else:
            print(told(made, options.dry_run))
        if made is not None and options.diff and not options.json:
            print("\n" + made.patch())
        return made.code if made else 0


def answer(text: str) -> tuple[str, str]:
    """Return question and answer of `question=answer`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no answer: it needs question=answer")
    return name, value


def main() -> int:
    """Update the repository and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="update", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", metavar="vX.Y.Z", help="the version to update to (default: the newest)")
    parser.add_argument("--answer", type=answer, action="append", default=[], metavar="QUESTION=ANSWER")
    parser.add_argument("--dry-run", action="store_true", help="change nothing, say the same")
    parser.add_argument("--diff", action="store_true", help="print the change of each file too")
    parser.add_argument("--no-lock", action="store_true", help="leave the locks, also where the runtime is another")
    parser.add_argument("--json", action="store_true", help="print for a program")
    parser.add_argument("--repository", type=Path, default=Path.cwd(), help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        return update(options.repository.resolve(), options)
    except UpdateError as error:
        print(f"update: {error}", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"update: {' '.join(error.cmd)}: {last_line(error.stderr)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
