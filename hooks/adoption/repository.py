"""The old repository: whether it can be adopted, a clone to work in, and the branch that appears in it at the end."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from gpu_repo_runtime.update.git_calls import call, git, last_line

NO_LFS = {"GIT_LFS_SKIP_SMUDGE": "1", "GIT_TERMINAL_PROMPT": "0"}
NO_FILTER = ("filter.lfs.required=false", "filter.lfs.smudge=", "filter.lfs.process=", "filter.lfs.clean=")
PLAIN = tuple(part for setting in NO_FILTER for part in ("-c", setting))


class AdoptError(Exception):
    """The repository is not adopted; the message says why and what to do. It is as it was."""


def check(repository: Path, branch: str) -> None:
    """Raise AdoptError unless the repository can be adopted onto a new branch."""
    if not repository.is_dir():
        raise AdoptError(
            f"{repository} is not a folder: say where the repository is, for example make adopt REPO=../old"
        )
    top = call(repository, "rev-parse", "--show-toplevel")
    if top.returncode:
        if b"dubious ownership" in top.stderr:
            raise AdoptError(
                f"{repository} belongs to another user, and git does not read it: "
                f"git config --global --add safe.directory {shlex.quote(str(repository.resolve()))}"
            )
        if call(repository, "rev-parse", "--is-bare-repository").stdout.strip() == b"true":
            raise AdoptError(f"{repository} is a bare repository: clone it, and adopt the clone")
        raise AdoptError(f"{repository} is not a git repository: git init && git add -A && git commit there first")
    root = Path(top.stdout.decode(errors="surrogateescape").rstrip("\n"))
    if root.resolve() != repository.resolve():
        raise AdoptError(
            f"{repository} is a folder of the repository {root}: the template owns a repository's root, "
            f"so take the folder out with its history first: git -C {root} subtree split "
            f"--prefix={repository.resolve().relative_to(root.resolve())}"
        )
    if call(repository, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").returncode:
        raise AdoptError(f"{repository} has no commit yet: make new TO=... starts a repository")
    if call(repository, "check-ref-format", "--branch", branch).returncode:
        raise AdoptError(f"{branch!r} is not the name of a branch: for example TO=adopt-template")
    if not call(repository, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}").returncode:
        raise AdoptError(
            f"{repository} has a branch {branch} already: git branch -D {branch} there, or another name with TO=..."
        )
    _check_beside(repository, branch)
    status = git(repository, "status", "--porcelain", "-z", "--ignore-submodules=dirty")
    changed = [row[3:] for row in status.split("\0") if row]
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise AdoptError(
            f"{repository} has work that is not committed: {', '.join(changed[:3])}{more}. Commit or stash it first"
        )
    if git(repository, "ls-files", "-z", "--", ".venv"):
        raise AdoptError(
            f"{repository} tracks .venv, where the scripts make their environment: git rm -r --cached .venv, and commit"
        )
    if (
        call(repository, "var", "GIT_AUTHOR_IDENT").returncode
        or call(repository, "var", "GIT_COMMITTER_IDENT").returncode
    ):
        raise AdoptError(
            f"git does not know who commits in {repository}: git config user.name NAME and user.email ADDRESS there"
        )
    _check_pyproject(repository)
    _check_answers(repository)


def _check_beside(repository: Path, branch: str) -> None:
    """Raise AdoptError where a branch stands in the way: for git, one is a file and the other its folder."""
    above = ["/".join(branch.split("/")[:number]) for number in range(1, branch.count("/") + 1)]
    names = git(repository, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/").splitlines()
    if other := next((name for name in names if name in above or name.startswith(f"{branch}/")), ""):
        raise AdoptError(f"no branch {branch} can be beside the branch {other}: another name with TO=...")


def _check_pyproject(repository: Path) -> None:
    try:
        tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise AdoptError(f"pyproject.toml of {repository} cannot be read: correct and commit it ({error})") from error
    except OSError:
        return


def _check_answers(repository: Path) -> None:
    files = git(repository, "ls-files", "-z").split("\0")
    answers = next((name for name in files if re.fullmatch(r"\.copier-answers(\.[\w-]+)?\.ya?ml", name)), "")
    if not answers:
        return
    try:
        known = yaml.safe_load((repository / answers).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError):
        known = {}
    source = known.get("_src_path", "a template") if isinstance(known, dict) else "a template"
    if isinstance(known, dict) and {"project_type", "framework", "gpu_driver"} <= known.keys():
        raise AdoptError(f"{repository} follows this template already ({answers}): scripts/update brings what is new")
    raise AdoptError(
        f"{repository} follows another template of Copier ({answers}: {source}): two would own the same "
        f"files. Delete {answers} and commit, if that one is to bring no more updates"
    )


@contextmanager
def cloned(repository: Path) -> Iterator[Path]:
    """Give a clone of the repository's HEAD to work in: the repository itself is only read."""
    with TemporaryDirectory(prefix="adopt-") as folder:
        clone = Path(folder) / (re.sub(r"[^A-Za-z0-9._-]", "-", repository.resolve().name) or "repository")
        try:
            git(
                repository,
                *PLAIN,
                "clone",
                "--quiet",
                "--shared",
                "--no-tags",
                str(repository.resolve()),
                str(clone),
                more=NO_LFS,
            )
        except subprocess.CalledProcessError as error:
            raise AdoptError(f"{repository} cannot be cloned: {last_line(error.stderr)}") from error
        for pair in NO_FILTER:
            git(clone, "config", *pair.split("=", 1))
        yield clone


def commit(clone: Path, repository: Path, subject: str, paths: list[str]) -> str:
    """Commit `paths` of the clone, ignored or not, as the repository's owner; return the commit. Raises AdoptError."""
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
    return git(clone, "rev-parse", "HEAD").strip()


def publish(clone: Path, repository: Path, branch: str) -> None:
    """Let the branch appear in the repository: the one moment at which anything changes there. Raises AdoptError."""
    try:
        git(
            repository,
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            str(clone),
            f"HEAD:refs/heads/{branch}",
        )
    except subprocess.CalledProcessError as error:
        there = not call(repository, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}").returncode
        why = "it is there by now, perhaps by another adoption at the same time" if there else last_line(error.stderr)
        raise AdoptError(f"the branch {branch} cannot be written into {repository}: {why}") from error


def turns_line_ends(repository: Path) -> bool:
    """Tell whether git checks every text out with CRLF here."""
    return call(repository, "config", "--get", "core.autocrlf").stdout.strip().lower() == b"true"


def unsigned(repository: Path) -> str:
    """Return what is to be known where commits of this repository are signed: this one is not."""
    if call(repository, "config", "--type=bool", "--get", "commit.gpgsign").stdout.strip() != b"true":
        return ""
    return (
        "commit.gpgsign is set, and this commit is not signed: git commit --amend --no-edit -S on the branch signs it"
    )


def lost_lines(clone: Path, before: str, after: str = "HEAD") -> dict[str, int]:
    """Return the files of `before` that lost lines in `after`, and how many: there must be none."""
    rows = git(clone, "diff", "--numstat", "--no-renames", "-z", before, after).split("\0")
    touched = [row.split("\t")[2] for row in rows if row.count("\t") == 2 and not row.startswith("0\t0\t")]
    lost = {path: _missing(clone, before, after, path) for path in touched}
    return {path: count for path, count in lost.items() if count}


def _missing(clone: Path, before: str, after: str, path: str) -> int:
    """Return how many lines of a file are not in it any more, in their order; what moved to NAME.before is whole."""
    old = call(clone, "cat-file", "blob", f"{before}:{path}")
    moved = call(clone, "cat-file", "blob", f"{after}:{path}.before")
    if old.returncode or (moved.returncode == 0 and moved.stdout == old.stdout):
        return 0
    new = iter(call(clone, "cat-file", "blob", f"{after}:{path}").stdout.splitlines())
    return sum(1 for line in old.stdout.splitlines() if line not in new)
