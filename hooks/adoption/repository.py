"""The old repository: whether it can be adopted, a clone to work in, and the branch that appears in it at the end."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from git_calls import call, git, last_line


class AdoptError(Exception):
    """The repository is not adopted; the message says why and what to do. It is as it was."""


def check(repository: Path, branch: str) -> None:
    """Raise AdoptError unless the repository can be adopted onto a new branch."""
    top = call(repository, "rev-parse", "--show-toplevel") if repository.is_dir() else None
    if top is None or top.returncode:
        why = last_line(top.stderr.decode(errors="replace")) if top else "there is no such folder"
        raise AdoptError(f"{repository} is not a git repository with a work tree: {why}")
    root = Path(top.stdout.decode(errors="surrogateescape").rstrip("\n")).resolve()
    if root != repository.resolve():
        inner = repository.resolve().relative_to(root)
        raise AdoptError(
            f"{repository} is a folder of the repository {root}, and the template owns a repository's root: take the "
            f"folder out first, git -C {root} subtree split --prefix={inner}"
        )
    if call(repository, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").returncode:
        raise AdoptError(f"{repository} has no commit yet: make new TO=... starts a repository")
    if not call(repository, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}").returncode:
        raise AdoptError(
            f"{repository} has a branch {branch} already: git branch -D {branch} there, or another name with TO=..."
        )
    if changed := git(repository, "status", "--porcelain", "--ignore-submodules=dirty").splitlines():
        raise AdoptError(f"{repository} has uncommitted work ({changed[0][3:]}): commit or stash it first")
    if call(repository, "var", "GIT_AUTHOR_IDENT").returncode:
        raise AdoptError(
            f"git does not know who commits in {repository}: git config user.name NAME and user.email ADDRESS there"
        )
    files = git(repository, "ls-files", "-z").split("\0")
    if answers := next((path for path in files if re.fullmatch(r"\.copier-answers(\.[\w-]+)?\.ya?ml", path)), ""):
        raise AdoptError(
            f"{repository} follows a template of Copier already ({answers}). If it is this one, scripts/update brings "
            f"what is new; if that one brings no more updates, delete {answers} and commit"
        )
    if "pyproject.toml" in files:
        try:
            tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise AdoptError(
                f"pyproject.toml of {repository} cannot be read: correct and commit it ({error})"
            ) from error


@contextmanager
def cloned(repository: Path) -> Iterator[Path]:
    """Give a clone of the repository's HEAD to work in; the repository itself is only read. Raises AdoptError."""
    with TemporaryDirectory(prefix="adopt-") as folder:
        clone = Path(folder) / (re.sub(r"[^A-Za-z0-9._-]", "-", repository.resolve().name) or "repository")
        try:
            git(repository, "clone", "--quiet", "--shared", "--no-tags", str(repository.resolve()), str(clone),
                more={"GIT_LFS_SKIP_SMUDGE": "1"})  # fmt: skip
        except subprocess.CalledProcessError as error:
            raise AdoptError(f"{repository} cannot be cloned: {last_line(error.stderr)}") from error
        yield clone


def commit(clone: Path, repository: Path, subject: str, paths: list[str]) -> None:
    """Commit `paths` of the clone, ignored or not, as the repository's owner. Raises AdoptError."""
    who: list[str] = []
    for key in ("user.name", "user.email"):
        value = call(repository, "config", "--get", key).stdout.decode(errors="surrogateescape").strip()
        who += ["-c", f"{key}={value}"] if value else []
    names = "".join(f"{path}\0" for path in paths)
    try:
        git(clone, "add", "--force", "--all", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=names,
            more={"GIT_LITERAL_PATHSPECS": "1"})  # fmt: skip
        git(clone, *who, "commit", "--quiet", "--no-gpg-sign", "-m", subject)
    except subprocess.CalledProcessError as error:
        raise AdoptError(f"the commit cannot be made: {last_line(error.stderr or error.stdout)}") from error


def publish(clone: Path, repository: Path, branch: str) -> None:
    """Let the branch appear in the repository: the only change there. Raises AdoptError."""
    try:
        into = f"HEAD:refs/heads/{branch}"
        git(repository, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", str(clone), into)
    except subprocess.CalledProcessError as error:
        raise AdoptError(
            f"the branch {branch} cannot be written into {repository}: {last_line(error.stderr)}"
        ) from error


def lost_lines(clone: Path, before: str, after: str = "HEAD") -> dict[str, int]:
    """Return the files of `before` that lost lines in `after`, and how many: there must be none."""
    rows = git(clone, "diff", "--numstat", "--no-renames", "-z", before, after).split("\0")
    touched = [row.split("\t")[2] for row in rows if row.count("\t") == 2 and not row.startswith("0\t0\t")]
    lost = {path: missing_lines(clone, before, after, path) for path in touched}
    return {path: count for path, count in lost.items() if count}


def missing_lines(clone: Path, before: str, after: str, path: str) -> int:
    """Return how many lines of a file are no longer in it, in their order."""
    old = call(clone, "cat-file", "blob", f"{before}:{path}")
    new = iter(call(clone, "cat-file", "blob", f"{after}:{path}").stdout.splitlines())
    return sum(1 for line in old.stdout.splitlines() if line not in new) if not old.returncode else 0
