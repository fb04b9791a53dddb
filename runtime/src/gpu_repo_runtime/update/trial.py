"""An update made in a scratch work tree: what it does to each file, before anything is written to the repository."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from copier import run_copy, run_update

from .answers import (
    ANSWERS,
    check_answers_file,
    following,
    from_child,
    read_answers,
    rendered_answers,
    with_own_comments,
    with_own_keys,
    with_source_of,
)  # fmt: skip
from .by_hand import Recorded, recorded
from .checkout import as_committed, check_seen, submodules, with_windows_endings
from .file_states import Entry, Trees, entries, entry_at
from .git_calls import UpdateError, as_nobody, call, git, without_password
from .outcome import ORDER, Outcome, outcomes
from .ownership import owners_in
from .scratch_tree import check_clean, scratch, scratch_folder
from .start import Start, choose, followed
from .switch import left_behind, lost_package, merge_seeds, move_package, package, uses_of
from .template_versions import Release, Template, release, template_of, version_of
from .words import why
from .write_back import check_room

CODES = {"conflict": 3, "at risk": 4}


@dataclass(frozen=True)
class Trial:
    """An update made in the scratch work tree `tree`; `outcomes` tells each file, `paths` are those that differ."""

    old: str
    since: str  # the release that the child has, where `old` names a commit
    new: Release
    tree: Path
    outcomes: list[Outcome]
    paths: list[str]

    @property
    def code(self) -> int:
        """Return the exit code: 4 edits at risk, 3 conflicts, 0 neither."""
        return max((CODES.get(outcome.kind, 0) for outcome in self.outcomes), default=0)

    def commit_tree(self) -> str:
        """Return the git tree that holds the result, markers and ignored files included; the index stays as it is."""
        with TemporaryDirectory() as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder, "index")), "GIT_LITERAL_PATHSPECS": "1"}
            index |= as_committed(self.tree)
            git(self.tree, "read-tree", "HEAD", more=index)
            names = "".join(f"{path}\0" for path in self.paths)
            if names:
                there = ["--pathspec-from-file=-", "--pathspec-file-nul"]
                git(self.tree, "add", "--force", "--all", *there, stdin=names, more=index)
            return git(self.tree, "write-tree", more=index).strip()

    def patch(self) -> str:
        """Return the whole change as a patch, without passwords in it."""
        plain = ("--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/")
        return without_password(git(self.tree, "diff", "--binary", *plain, "HEAD", self.commit_tree()))


def check_given(given: dict[str, Any], questions: tuple[str, ...]) -> None:
    """Raise UpdateError for an answer to a question that the template does not ask."""
    for name in given:
        if name not in questions:
            raise UpdateError(f"the template has no question {name!r}: it has {', '.join(questions)}")


def render_old(template: Template, start: Start, answers: dict[str, Any], folder: Path) -> None:
    """Render what the child follows, with its answers."""
    recorded = {name: value for name, value in answers.items() if not name.startswith("_")}
    run_copy(
        str(template.place), folder, data=recorded, vcs_ref=start.commit, defaults=True, quiet=True, overwrite=True
    )


def render_new(
    template: Template, start: Start, tag: str, text: str, given: dict[str, Any], old: Path, folder: Path
) -> None:
    """Update a copy of the old render, which nobody edited, with Copier; `text` are the child's answers."""
    shutil.copytree(old, folder, symlinks=True)
    (folder / ANSWERS).write_text(following(text, str(template.place), start.commit), encoding="utf-8")
    git(folder, "init", "--quiet", "--template=")
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--no-verify", "--message=old")
    run_update(folder, data=given, vcs_ref=tag, defaults=True, quiet=True, overwrite=True, conflict="inline")


def asked_in(template: Template, *commits: str) -> set[str]:
    """Return the names of all questions of some commits of the template, computed ones included."""
    texts = [call(template.place, "show", f"{commit}:copier.yml").stdout.decode(errors="replace") for commit in commits]
    return {line.split(":")[0] for text in texts for line in text.splitlines() if line[:1].isalpha() and ":" in line}


def before_hands(child: Path, template: Template, start: Start, text: str, tag: str | None) -> Recorded:
    """Return what the child's files were rendered with, and what was answered by hand since."""
    asked = asked_in(template, *{start.commit, tag or start.commit})
    with scratch_folder() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with as_nobody():
            return recorded(child, text, asked, partial(render_old, template, start), folder)


@contextmanager
def trial(child: Path, to: str | None = None, given: dict[str, Any] | None = None) -> Iterator[Trial | None]:
    """Make the update in a scratch work tree and give the result; None when there is nothing to do.

    `child` must be clean: the root of a repository, or a folder in one. Raises UpdateError, and changes nothing there.
    """
    given = given or {}
    check_clean(child)
    answers = read_answers(child)
    check_answers_file(child)
    text = (child / ANSWERS).read_text(encoding="utf-8")
    source = from_child(child, answers["_src_path"])
    template = template_of(source)
    start = followed(template, answers["_commit"], text)
    tag = choose(template, start, to)
    before = before_hands(child, template, start, text, tag)
    for note in filter(None, (template.found_by(), start.note, before.note)):
        print(f"update: {note}", file=sys.stderr)
    if tag is None and not given and not before.note and not lost_package(child, answers):
        yield None
        return
    tag = tag or template.known.get(version_of(start.name) or None, start.commit)  # type: ignore[arg-type]
    new = release(source, tag)
    check_given(given, new.questions)
    given = {name: value for name, value in before.changed.items() if name in new.questions} | given
    answers = before.answers
    with scratch(child) as tree, scratch_folder() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with as_nobody():
            trees = rendered(template, start, new, text, before, given, tree, place)
            extra = switch(template, start, new, answers, given, trees, place) if given else []
            found = [*outcomes(trees), *([] if given else lost_package(child, answers))]
            if given:
                found = with_uses(trees, answers, [*found, *extra], child)
            found = [told_unseen(trees, outcome) for outcome in found]
            found = with_resets(found, answers, given, rendered_answers(place / "new"))
        owned = owners_in(tree)
        found = [o for o in found if o.kind != "opted out" or owned.of(o.path) != "seed"]
        paths = sorted(trees.touched, key=lambda path: (path == ANSWERS, path))
        check_seen(child, paths)
        check_room(child, tree, paths)
        yield Trial(start.name, template.release_in(start.commit, start.name), new, tree, found, paths)


def rendered(
    template: Template, start: Start, new: Release, text: str, before: Recorded, given: dict[str, Any],
    tree: Path, folder: Path,
) -> Trees:  # fmt: skip
    """Return the three states of each file. Raises UpdateError where Copier stops."""
    try:
        render_old(template, start, before.answers, folder / "old")
        render_new(template, start, new.tag, before.text, given, folder / "old", folder / "new")
    except UpdateError:
        raise
    except Exception as error:
        raise UpdateError(why(error, before.answers | given, new.tag)) from error
    windows = with_windows_endings(tree)
    base, ours, theirs = entries(folder / "old"), entries(tree, windows), entries(folder / "new")
    if ANSWERS in theirs:
        asked = asked_in(template, start.commit, new.tag)
        after = with_own_keys(with_source_of(theirs[ANSWERS].text.decode(), text), text, asked)
        if ANSWERS in base:
            after = with_own_comments(after, text, base[ANSWERS].text.decode())
        base[ANSWERS], theirs[ANSWERS] = ours[ANSWERS], Entry(after.encode())
    return Trees(base, ours, theirs, tree, windows, submodules(tree))


def switch(
    template: Template, start: Start, new: Release, answers: dict[str, Any], given: dict[str, Any], trees: Trees,
    folder: Path,
) -> list[Outcome]:  # fmt: skip
    """Let other answers move the package and reach the seeds; return what is to be told of it. Raises UpdateError."""
    after = read_answers(folder / "new")
    old, name = package(answers), package(after)
    told = [move_package(trees, old, name)] if old != name else []
    data = {key: value for key, value in after.items() if not key.startswith("_")}
    for ref in (start.commit, new.tag):  # an answer that only the new version knows is rendered by that one
        with suppress(Exception):
            target = folder / f"switched-{ref}"
            run_copy(str(template.place), target, data=data, vcs_ref=ref, defaults=True, quiet=True)
            owned = owners_in(folder / "old"), owners_in(target)
            return [*told, *merge_seeds(trees, entries(target), *owned, old, name)]
    raise UpdateError(f"neither {start.name} nor {new.tag} can be rendered with these answers")


def with_uses(trees: Trees, answers: dict[str, Any], found: list[Outcome], child: Path) -> list[Outcome]:
    """Return the outcomes, and the files in which the owner still uses the package's old name, or that kept it."""
    old, name = package(answers), package(read_answers(trees.result))
    uses = [*uses_of(trees, old, name), *left_behind(child, old)] if old != name else []
    named = {outcome.path for outcome in (*uses, *(o for o in found if o.kind == "at risk"))}
    both = [*(o for o in found if o.path not in named or o.kind == "at risk"), *uses]
    return sorted(both, key=lambda outcome: (ORDER.index(outcome.kind), outcome.path))


def with_resets(
    found: list[Outcome], before: dict[str, Any], given: dict[str, Any], after: dict[str, Any]
) -> list[Outcome]:
    """Return the outcomes, and at risk the answers that the new version does not take and Copier replaced unasked."""
    changed = [n for n in before if n in after and not same_answer(before[n], after[n])]
    names = [n for n in changed if not n.startswith("_") and n not in given]
    told = [f"the answer {name}: {before[name]} is not possible any more and became {after[name]}" for name in names]
    if given or not told:  # an answer that was given may change what another one stands for
        return found
    return [Outcome(ANSWERS, "at risk", "; ".join(told)), *(o for o in found if o.path != ANSWERS)]


def same_answer(before: Any, after: Any) -> bool:
    """Tell whether two answers are one that is written in two ways: 580 and "580", yes and true."""

    def plain(value: Any) -> Any:
        with suppress(yaml.YAMLError):
            return yaml.safe_load(value) if isinstance(value, str) else value
        return value

    return bool(before == after or plain(before) == plain(after))


def told_unseen(trees: Trees, outcome: Outcome) -> Outcome:
    """Return the outcome, with a word where git does not see a file that the template adds, or that it is a program."""
    tree, path = trees.result, outcome.path
    options = []
    if outcome.kind == "added" and not call(tree, "check-ignore", "--quiet", "--", path).returncode:
        options.append(("git ignores it here", "--force"))
    before, after = trees.ours.get(path), entry_at(tree / path)
    program = [entry is not None and entry.program for entry in (before, after)]
    if after and program[0] != program[1] and call(tree, "config", "core.fileMode").stdout.strip() == b"false":
        options.append(("git does not look at modes here", f"--chmod={'+' if program[1] else '-'}x"))
    if not options:
        return outcome
    note = f"{' and '.join(why for why, _ in options)}: git add {' '.join(option for _, option in options)} {path}"
    return Outcome(path, outcome.kind, "; ".join(filter(None, (outcome.note, note))))
