"""The whole of an adoption in a clone: read, render, lock, place, commit; the branch appears when all of it worked."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from git_calls import git, without_password
from new import NewError, start

from adoption import baseline, lock, placing, repository
from adoption.detect import Answer, detect, left_to_do
from adoption.packages import Packaging, read_packaging
from adoption.repository import AdoptError
from adoption.tree import read_tree

ANSWERS = ".copier-answers.yml"


@dataclass(frozen=True)
class Wish:
    """What the person requested."""

    repository: Path
    branch: str
    answers: dict[str, str]
    template: str
    version: str | None


@dataclass
class Adoption:
    """What was found, planned and done."""

    wish: Wish
    answers: dict[str, Answer]
    facts: dict[str, str]
    to_do: list[str]
    entries: list[placing.Entry] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    image: str = ""
    version: str = ""
    commit: str = ""


def adopt(wish: Wish, dry_run: bool) -> Adoption:
    """Adopt a repository, or do all of it but write the branch. Raises AdoptError; the repository is then as it was."""
    repository.check(wish.repository, wish.branch)
    with repository.cloned(wish.repository) as clone, TemporaryDirectory(prefix="adopt-") as name:
        before, tree = git(clone, "rev-parse", "HEAD").strip(), read_tree(clone)
        packaging = read_packaging(tree)
        answers, layout = detect(tree, packaging, wish.repository.resolve().name, wish.answers)
        facts = {
            "packaging": ", ".join(packaging.kinds) or "none",
            "layout": f"{layout.kind}: {', '.join((layout.packages or layout.modules)[:5]) or 'no code'}",
            "tests": f"{len(tree.tests)} files",
        }
        done = Adoption(wish, answers, facts, left_to_do(tree, packaging))
        first, render = Path(name, "first"), Path(name, "render")
        render_template(done, first)
        kept = placing.kept_paths(tree, placing.files_in(first))
        versions = lock.image_versions((first / "constraints.txt").read_text(encoding="utf-8"))
        asks = lock.reads_pyproject(packaging, versions)
        adopted = placing.answer_of(tree, layout, kept, asks)
        render_template(done, render, adopted)
        done.entries = placing.entries_of(tree, render, kept)
        new = placing.place(clone, render, done.entries)
        package = str(answers["package_name"].value)
        placing.fit_files(clone, tree, layout, package, new)
        lock_packages(done, clone, render, packaging, adopted)
        said = placing.name_packages(clone, packaging, layout, package)
        if isinstance(said, placing.Entry):
            done.entries = [entry for entry in done.entries if entry.path != said.path] + [said]
        elif said:
            done.to_do.append(said)
        why = baseline.write_baseline(clone, tree, [path for path in new if path.endswith(".py")])
        done.entries.append(placing.Entry(baseline.NAME, "new", why))
        placing.unignore(clone, new)
        commit(done, clone, before)
        if not dry_run:
            repository.publish(clone, wish.repository, wish.branch)
    return done


def render_template(done: Adoption, target: Path, adopted: dict[str, Any] | None = None) -> None:
    """Render the template with the answers found, with plain if this version lacks the framework. Raises AdoptError."""
    given = {name: answer.value for name, answer in done.answers.items()} | {"adopted": adopted or {"kept": []}}
    texts = [
        f"{name}={json.dumps(value) if isinstance(value, list | bool | dict) else value}"
        for name, value in given.items()
    ]
    try:
        start(done.wish.template, target, texts, False, done.wish.version)
    except NewError as error:
        if "framework cannot be" in str(error) and "framework" not in done.wish.answers and adopted is None:
            reason = f"{done.answers['framework'].reason}; this version of the template has no such choice"
            done.answers["framework"] = Answer("plain", reason)
            return render_template(done, target)
        raise AdoptError(f'{error}; an answer is changed with DATA="question=answer"') from error
    known = yaml.safe_load((target / ANSWERS).read_text(encoding="utf-8"))
    if adopted and "adopted" not in known:
        raise AdoptError(
            f"version {known.get('_commit')} of the template cannot adopt: take a newer one, or VERSION=HEAD"
        )
    image = re.search(r"ARG BASE_IMAGE=\S*/([\w.-]+):", next(target.glob("*Dockerfile")).read_text(encoding="utf-8"))
    done.image, done.version = image[1] if image else "", str(known["_commit"])


def lock_packages(done: Adoption, clone: Path, render: Path, packaging: Packaging, adopted: dict[str, Any]) -> None:
    """Lock the packages away from the repository's files, and copy the locks and their inputs into the clone."""
    room, prefix = render.with_name("room"), str(adopted["requirements"])
    lock.make_room(room, render, clone / "pyproject.toml")
    shutil.copyfile(render.with_name("first") / "pyproject.toml", room / "pyproject.toml.template")
    locked = lock.resolve(room, prefix, packaging, bool(adopted.get("asks")), done.image)
    done.notes += locked.notes
    done.to_do += locked.to_do
    known = {entry.path for entry in done.entries}
    names = lock.take_out(room, clone, prefix)
    done.entries += [placing.Entry(name, "new", "the packages found") for name in names if name not in known]


def commit(done: Adoption, clone: Path, before: str) -> None:
    """Commit the files of the template. Raises AdoptError if a line of the repository would be lost."""
    ours = {entry.path for entry in done.entries if entry.kind not in ("kept", "same")} | {".gitignore"}
    changed = git(clone, "diff", "--name-only", "-z", "HEAD").split("\0")
    more = [path for path in git(clone, "ls-files", "--others", "-z").split("\0") if path]
    written = sorted({path for path in changed if path in ours} | set(more))
    repository.commit(clone, done.wish.repository, f"Adopt the template, version {done.version}", written)
    if lost := repository.lost_lines(clone, before):
        raise AdoptError(f"lines would be lost in {', '.join(lost)}, which must not happen: please report it")
    done.commit = git(clone, "rev-parse", "HEAD").strip()


def masked(text: str) -> str:
    """Return a text without passwords and tokens in its addresses."""
    return without_password(re.sub(r"(\w+\+https?://)[^/\s'\"]*@", r"\1", text))


def as_text(done: Adoption, dry_run: bool) -> str:
    """Return what was found, planned and done."""
    lines = [f"{done.wish.repository}, as the template {done.version} sees it:", ""]
    width = max(map(len, [*done.answers, *done.facts]))
    answers = {n: v if isinstance(v := one.value, str) else json.dumps(v) for n, one in done.answers.items()}
    lines += [f"  {name:{width}}  {answers[name]}  ({one.reason})" for name, one in done.answers.items()]
    lines += ["", *(f"  {name:{width}}  {text}" for name, text in done.facts.items()), ""]
    lines += [f"  {one.kind:7} {one.path}  ({one.how})" for kind in ("merged", "beside", "kept")
              for one in done.entries if one.kind == kind]  # fmt: skip
    counts = Counter(entry.path.split("/")[0] for entry in done.entries if entry.kind == "new")
    new = [f"{name} ({count} files)" if count > 1 else name for name, count in sorted(counts.items())]
    lines += [f"  new     {', '.join(new)}"]
    for head, items in (("To know:", done.notes), ("To do:", done.to_do)):
        lines += ["", head, *(f"  - {text}" for text in items)] if items else []
    if dry_run:
        return masked("\n".join([*lines, "", 'Nothing was written. An answer is changed with DATA="question=answer".']))
    lines += ["", f"The branch {done.wish.branch} has it in one commit; your checkout is as it was. Next:", ""]
    lines += [
        f"  cd {done.wish.repository} && git switch {done.wish.branch}",
        "  scripts/setup",
        "  scripts/test && scripts/lint",
    ]
    return masked("\n".join(lines))


def as_json(done: Adoption, dry_run: bool) -> str:
    """Return the same for a program."""
    found = {
        "repository": str(done.wish.repository),
        "branch": done.wish.branch,
        "commit": None if dry_run else done.commit,
        "template": done.version,
        "image": done.image,
        "answers": {name: {"answer": one.value, "reason": one.reason} for name, one in done.answers.items()},
        "found": done.facts,
        "files": [
            {"path": one.path, "kind": one.kind, "how": one.how} for one in sorted(done.entries, key=lambda e: e.path)
        ],
        "to_know": done.notes,
        "to_do": done.to_do,
    }
    return masked(json.dumps(found, indent=2, ensure_ascii=False))
