"""What the template changed for one child between two releases, as one commit in the child's repository."""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from copier import Settings, run_copy
from pathspec import GitIgnoreSpec

from .git import Git, UpdateError, clean
from .ownership import owners_in
from .releases import Releases

ANSWERS, LEFT_ALONE = ".copier-answers.yml", ".copier-leave-alone"
EPOCH = "1970-01-01T00:00:00Z"  # conflict markers name this commit: the same update has to be the same text
LARGEST = 65536  # bytes of an answers file
NAMES_RELEASE = re.compile(r"(?m)^(?:_commit|_src_path):.*(?:\n[ \t]+.*)*\n?")
NAMES_COMMIT = re.compile(r"(?m)^# The template's commit: (.*)\n")
AS_RENDERED = ("core.autocrlf=false", "core.fileMode=true", "core.safecrlf=false")


@dataclass(frozen=True)
class Step:
    """From which version to which, and the answers that change on the way. `source` is the template's new address."""

    old: str
    new: str
    given: dict[str, Any] = field(default_factory=dict)
    source: str = ""


def committed(git: Git, path: str) -> str:
    """Return a file of the child's last commit, "" where there is none. `path` counts from the child's folder."""
    prefix = git.text("rev-parse", "--show-prefix")  # HEAD:./ does not work in a bare repository
    done = git.run("cat-file", "-p", f"HEAD:{prefix}{path}")
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else ""


def read_answers(git: Git) -> dict[str, Any]:
    """Return the answers in the child's last commit. Raises UpdateError."""
    text = committed(git, ANSWERS)
    if not text:
        raise UpdateError(f"there is no {ANSWERS} in the last commit: this repository does not follow a template")
    try:
        if len(text) > LARGEST or any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise UpdateError(f"{ANSWERS} is larger than 64 KiB, or uses YAML aliases")
        answers = yaml.safe_load(text)
        return {**answers, "_commit": str(answers["_commit"]), "_src_path": str(answers["_src_path"])}
    except (yaml.YAMLError, RecursionError, KeyError, TypeError):
        raise UpdateError(f"{ANSWERS} cannot be read, or has no _commit and _src_path: restore it from git") from None


def questions(template: Path) -> set[str]:
    """Return the names of the questions of an unpacked release."""
    return set(re.findall(r"(?m)^([A-Za-z]\w*):", (template / "copier.yml").read_text(encoding="utf-8")))


def render(template: Path, name: str, folder: Path, data: dict[str, Any]) -> None:
    """Render a release with `data` and the answers that `folder` has already. Raises UpdateError."""
    asked = {key: value for key, value in data.items() if key in questions(template)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run_copy(str(template), folder, data=asked, defaults=True, quiet=True, overwrite=True, settings=Settings())
    except Exception as error:  # Copier, Jinja and the template raise errors of many types
        missing = re.search(r'Question "(\w+)" is required', str(error))
        if missing:
            raise UpdateError(
                f"the answer to {missing[1]} is no longer possible in {name}: "
                f"read the changelog and give another one with --answer {missing[1]}=..."
            ) from error
        raise UpdateError(f"{name} cannot be rendered with these answers: {clean(str(error))[:300]}") from error


def with_names_of(folder: Path, own: str) -> None:
    """Let the rendered answers name the release as the child's own do, so that only answers differ."""
    place = folder / ANSWERS
    text = NAMES_RELEASE.sub("", NAMES_COMMIT.sub("", place.read_text(encoding="utf-8")))
    first, _, rest = text.partition("\n")
    lines = "".join(match.group() for regex in (NAMES_COMMIT, NAMES_RELEASE) for match in regex.finditer(own))
    place.write_text(f"{first}\n{lines}{rest}" if first.startswith("#") else f"{lines}{text}", encoding="utf-8")


def entries(git: Git, folder: Path, index: Path) -> dict[str, str]:
    """Store the files of a folder in the child's repository and return path -> "mode object"."""
    env = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(folder)}
    env["GIT_DIR"] = git.text("rev-parse", "--absolute-git-dir")
    plain = Git(folder, git.env, (*git.settings, *AS_RENDERED))
    plain.text("add", "--all", "--force", ".", env=env)
    rows = [row.partition("\t") for row in plain.text("ls-files", "--stage", "-z", env=env).split("\0") if row]
    return {path: " ".join(facts.split()[:2]) for facts, _, path in rows}


def commit_of(git: Git, files: dict[str, str], index: Path, message: str, *parents: str) -> str:
    """Return a commit that contains some entries, in the child's folder of its repository."""
    prefix = git.text("rev-parse", "--show-prefix")
    env = {"GIT_INDEX_FILE": str(index), "GIT_AUTHOR_DATE": EPOCH, "GIT_COMMITTER_DATE": EPOCH}
    rows = "".join(f"{facts}\t{prefix}{path}\0" for path, facts in files.items())
    git.text("read-tree", "--empty", env=env)
    git.text("update-index", "-z", "--index-info", stdin=rows, env=env)
    return git.text("commit-tree", git.text("write-tree", env=env), *parents, "-m", message, env=env)


def left_alone(git: Git) -> GitIgnoreSpec:
    """Return the paths that the owner excluded from updates, in the syntax of .gitignore."""
    return GitIgnoreSpec.from_lines(committed(git, LEFT_ALONE).splitlines())


def template_change(git: Git, releases: Releases, step: Step) -> str:
    """Return the commit that takes the child from one release to the other, as if its owner had changed nothing.

    Only an answer that is given reaches seeds: as the old release renders it, or the new one where the old one does not
    know the answer. Raises UpdateError.
    """
    answers, own = read_answers(git), committed(git, ANSWERS)
    own = own if own.endswith("\n") else own + "\n"
    recorded = NAMES_COMMIT.search(own)
    before = releases.unpacked(releases.commit(step.old, recorded[1] if recorded else ""))
    after = releases.unpacked(releases.commit(step.new))
    if unknown := set(step.given) - questions(after):
        raise UpdateError(f"the template has no question {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="update-") as name:
        place, excluded = Path(name), left_alone(git)
        render(before, step.old, place / "old", answers)
        (place / "new").mkdir()
        (place / "new" / ANSWERS).write_text(own, encoding="utf-8", errors="surrogateescape")
        render(after, step.new, place / "new", step.given)  # a new question sees from the answers that it is an update
        for folder in (place / "old", place / "new"):
            with_names_of(folder, own)
        files, changed = (entries(git, place / each, place / f"{each}.index") for each in ("old", "new"))
        seeds = seeds_of(place / "old", place / "new", files, changed)
        changed = {path: at for path, at in changed.items() if path not in seeds}
        if step.given:
            changed |= render_seeds(git, step, answers, place, before, after)
        else:
            files = {path: at for path, at in files.items() if path not in seeds}
        sides = [{path: at for path, at in one.items() if not excluded.match_file(path)} for one in (files, changed)]
        base = commit_of(git, sides[0], place / "index", f"template {step.old}")
        return commit_of(git, sides[1], place / "index", f"template {step.new}", "-p", base)


def seeds_of(old: Path, new: Path, before: Iterable[str], after: Iterable[str]) -> set[str]:
    """Return the files that belong to their owner since the first day, by the lists of two renders."""
    was, now = owners_in(old), owners_in(new)
    return {path for path in {*before, *after} if now.of(path) == "seed"} | {
        path for path in {*before} - {*after} if was.of(path) == "seed"
    }


def render_seeds(
    git: Git, step: Step, answers: dict[str, Any], place: Path, before: Path, after: Path
) -> dict[str, str]:
    """Return the seeds with the given answers. Raises UpdateError."""
    data, folder = {**answers, **step.given}, place / "seeds"
    known = set(step.given) <= questions(before)
    try:
        render(*((before, step.old) if known else (after, step.new)), folder, data)
    except UpdateError:  # the old release may know the question and not this answer
        render(after, step.new, folder, data)
    owners = owners_in(folder)
    return {path: at for path, at in entries(git, folder, place / "seeds.index").items() if owners.of(path) == "seed"}


def with_release(text: str, name: str, commit: str, source: str = "") -> str:
    """Return a child's answers that name another release, and the template's new address where there is one."""
    text = re.sub(r"(?m)^_commit:.*$", lambda _: f"_commit: {name}", text)
    if source:
        line = yaml.safe_dump({"_src_path": source}, width=10**6, allow_unicode=True)
        text = re.sub(r"(?m)^_src_path:.*(?:\n[ \t]+.*)*\n?", lambda _: line, text)
    return NAMES_COMMIT.sub(f"# The template's commit: {commit}\n", text)
