"""What the template changed for one child between two releases, as one commit in the child's repository."""

import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from copier import Settings, run_copy
from pathspec import GitIgnoreSpec

from .git import BYTES, Git, UpdateError, clean
from .releases import Releases

Owners = dict[str, GitIgnoreSpec]  # seed and managed
ANSWERS, OWNERSHIP, LEFT_ALONE = ".copier-answers.yml", ".copier-ownership.yml", ".copier-leave-alone"
EPOCH = {f"GIT_{who}_DATE": "1970-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")}  # markers name the commit


def read_answers(git: Git) -> dict[str, Any]:
    """Return the answers in the child's last commit. Raises UpdateError."""
    try:
        answers = yaml.safe_load(git.file(ANSWERS))
        return {**answers, "_commit": str(answers["_commit"]), "_src_path": str(answers["_src_path"])}
    except (yaml.YAMLError, KeyError, TypeError):
        raise UpdateError(
            f"the last commit has no {ANSWERS} with _commit and _src_path: restore it from git, "
            "or this repository does not follow a template"
        ) from None


def render(template: Path, name: str, folder: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Render a release with `data` and the answers that `folder` has; return the new ones. Raises UpdateError."""
    try:
        run_copy(str(template), folder, data=data, defaults=True, quiet=True, overwrite=True, settings=Settings())
    except Exception as error:  # Copier, Jinja and the template raise errors of many types
        raise UpdateError(
            f"{name} cannot be rendered with these answers: {clean(str(error))[:300]} "
            "(give another answer with --answer question=answer)"
        ) from error
    return dict(yaml.safe_load((folder / ANSWERS).read_text(encoding="utf-8")))


def with_answers(own: str, before: dict[str, Any], after: dict[str, Any]) -> bytes:
    """Return a child's answers file with what differs between two sets of answers; own keys and comments stay."""
    text = re.sub(r"(?m)^# The template's commit:.*\n", "", own.rstrip("\n") + "\n")  # of 0.5 and older
    for name in before | after:
        if before.get(name) != after.get(name):
            line = yaml.safe_dump({name: after[name]}, allow_unicode=True, width=10**6) if name in after else ""
            entry = re.compile(rf"(?m)^{re.escape(name)}:.*\n(?:[ \t-].*\n|\n+(?=[ \t]))*")
            found = entry.search(text)
            text = text[: found.start()] + line + text[found.end() :] if found else text + line
    return text.encode(*BYTES)


def owners_in(folder: Path) -> Owners:
    """Return what matches the paths of each owner, by the list in a child; nothing does where there is none."""
    place = folder / OWNERSHIP
    lists = yaml.safe_load(place.read_text(encoding="utf-8")) if place.is_file() else {}
    rooted = {owner: [f"/{path.lstrip('/')}" for path in lists.get(owner) or ()] for owner in ("seed", "managed")}
    return {owner: GitIgnoreSpec.from_lines(patterns) for owner, patterns in rooted.items()}


def owner_of(path: str, owners: Owners) -> str | None:
    """Return who owns a path: seed (its owner), managed (the template), or None for what is on no list."""
    return next((owner for owner, spec in owners.items() if spec.match_file(path)), None)


def tree_of(git: Git, folder: Path, is_left: Callable[[str], bool]) -> str:
    """Store the files of a folder in the child's repository, without those that are left alone; return the tree."""
    env = {"GIT_INDEX_FILE": f"{folder}.index", "GIT_WORK_TREE": str(folder)}
    env["GIT_DIR"] = git.text("rev-parse", "--absolute-git-dir")
    there = Git(folder, {**git.env, **env}, (*git.settings, "core.autocrlf=false", "core.fileMode=true"))
    there.text("add", "--all", "--force", ".")
    left = "".join(f"{path}\0" for path in there.paths("ls-files", "-z") if is_left(path))
    there.text("update-index", "--force-remove", "-z", "--stdin", stdin=left)
    return there.text("write-tree")


def template_change(git: Git, releases: Releases, old: str, new: str, given: Mapping[str, str]) -> str:
    """Return the commit that takes the child from one release to the other, as if its owner had changed nothing.

    Seeds are part of it only where an answer is given. Raises UpdateError.
    """
    own, answers = git.file(ANSWERS), read_answers(git)
    excluded = GitIgnoreSpec.from_lines(git.file(LEFT_ALONE).splitlines())
    with tempfile.TemporaryDirectory(prefix="update-") as name:
        was, now = Path(name, "old"), Path(name, "new")
        asked = {key: value for key, value in answers.items() if not key.startswith("_")}
        before = render(releases.unpacked(old), old, was, asked) | {"_commit": old, "_src_path": ""}
        now.mkdir()
        (now / ANSWERS).write_bytes(own.encode(*BYTES))  # a new question sees from the answers that it is an update
        after = render(releases.unpacked(new), new, now, dict(given)) | {"_commit": new, "_src_path": ""}
        if unknown := set(given) - set(after):
            raise UpdateError(f"the template has no question {', '.join(sorted(unknown))} for this repository")
        (was / ANSWERS).write_bytes(own.encode(*BYTES))
        (now / ANSWERS).write_bytes(with_answers(own, before, after))
        owners = owners_in(now), owners_in(was)

        def is_left(path: str) -> bool:
            owner = owner_of(path, owners[0]) or owner_of(path, owners[1])
            return (owner == "seed" and not given) or excluded.match_file(path)

        base = git.text("commit-tree", tree_of(git, was, is_left), "-m", f"template {old}", env=EPOCH)
        tree = tree_of(git, now, is_left)
        return git.text("commit-tree", tree, "-p", base, "-m", f"template {new}", env=EPOCH)
