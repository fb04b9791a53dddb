"""The old repository: whether it can be adopted, a clone to work in, and the branch that appears in it at the end."""

import re
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
        raise AdoptError(
            f"{repository} is a folder of the repository {root}, and the template owns a repository's root: take the "
            f"folder out first, git -C {root} subtree split --prefix={repository.resolve().relative_to(root)}"
        )
    if call(repository, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").returncode:
        raise AdoptError(f"{repository} has no commit yet: make new TO=... starts a repository")
    if not call(repository, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}").returncode:
        raise AdoptError(
            f"{repository} has a branch {branch} already: git branch -D {branch} there, or another name with TO=..."
        )
    if changed := git(repository, "status", "--porcelain", "--ignore-submodules=dirty").splitlines():
        raise AdoptError(f"{repository} has uncommitted work ({changed[0][3:]}): commit or stash it first")
    files = git(repository, "ls-files", "-z").split("\0")
    if answers := next((path for path in files if re.fullmatch(r"\.copier-answers(\.[\w-]+)?\.ya?ml", path)), ""):
        raise AdoptError(
            f"{repository} follows a template of Copier already ({answers}). If it is this one, scripts/update brings "
            f"what is new; if that one brings no more updates, delete {answers} and commit"
        )
    try:
        tomllib.loads((repository / "pyproject.toml").read_text("utf-8") if "pyproject.toml" in files else "")
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise AdoptError(f"pyproject.toml of {repository} cannot be read: correct and commit it ({error})") from error


@contextmanager
def cloned(repository: Path) -> Iterator[Path]:
    """Give a clone of the repository's HEAD to work in; the repository itself is only read."""
    with TemporaryDirectory(prefix="adopt-") as folder:
        clone = Path(folder, "repository")
        git(repository, "clone", "--quiet", "--shared", "--no-tags", str(repository.resolve()), str(clone),
            more={"GIT_LFS_SKIP_SMUDGE": "1"})  # fmt: skip
        yield clone


def commit(clone: Path, repository: Path, subject: str, paths: list[str]) -> None:
    """Commit `paths` of the clone, ignored or not, as the repository's owner."""
    who: list[str] = []
    for key in ("user.name", "user.email"):
        value = call(repository, "config", "--get", key).stdout.decode(errors="surrogateescape").strip()
        who += ["-c", f"{key}={value}"] if value else []
    names = "".join(f"{path}\0" for path in paths)
    git(clone, "add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=names,
        more={"GIT_LITERAL_PATHSPECS": "1"})  # fmt: skip
    git(clone, *who, "commit", "--quiet", "--no-gpg-sign", "-m", subject)


def lost_lines(clone: Path, before: str) -> list[str]:
    """Return the files of `before` that no longer have all their lines, in their order: there must be none."""
    lost = []
    for path in filter(None, git(clone, "diff", "--name-only", "--diff-filter=a", "-z", before, "HEAD").split("\0")):
        old, new = (call(clone, "cat-file", "blob", f"{commit}:{path}").stdout for commit in (before, "HEAD"))
        rest = iter(new.splitlines())
        if not all(line in rest for line in old.splitlines()):
            lost.append(path)
    return lost
