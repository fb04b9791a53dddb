"""The whole of an adoption in a clone: read, render, lock, place, commit; the branch appears when all of it worked."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from git_calls import git
from gpu_repo_runtime.update.locks import versions
from gpu_repo_runtime.update.render import ANSWERS
from new import NewError, start

from adoption import lock, placing, repository
from adoption.detect import Answer, detect, left_to_do
from adoption.packages import read_packaging
from adoption.repository import AdoptError
from adoption.tree import layout_of, read_tree


@dataclass
class Adoption:
    """What was found, planned and done."""

    repository: str
    branch: str
    answers: dict[str, Answer]
    found: dict[str, str]
    template: str = ""
    commit: str = ""
    files: list[placing.Entry] = field(default_factory=list)
    to_know: list[str] = field(default_factory=list)
    to_do: list[str] = field(default_factory=list)


def adopt(old: Path, branch: str, given: dict[str, str], source: tuple[str, str | None], dry_run: bool) -> Adoption:
    """Adopt the repository `old`, or do all of it but write the branch. Raises AdoptError; `old` is then as it was.

    The `given` answers count; `source` is the address of the template and its version.
    """
    repository.check(old, branch)
    with repository.cloned(old) as clone, TemporaryDirectory(prefix="adopt-") as name:
        before, tree = git(clone, "rev-parse", "HEAD").strip(), read_tree(clone)
        packaging = read_packaging(tree)
        layout = layout_of(tree, packaging.name)
        answers = detect(tree, packaging, layout, old.resolve().name, given)
        facts = {
            "packaging": ", ".join(packaging.kinds) or "none",
            "packages": ", ".join((layout.packages or layout.modules)[:5]) or "no code",
            "tests": f"{len(tree.tests)} files",
        }
        done = Adoption(str(old), branch, answers, facts)
        first, made = Path(name, "first"), Path(name, "made")
        render(source, answers, {"kept": []}, first)
        kept = placing.kept_paths(tree, placing.files_in(first))
        asks = lock.is_readable(packaging, versions((first / "constraints.txt").read_text(encoding="utf-8")))
        adopted = placing.answer_of(tree, layout, kept, asks)
        done.template = render(source, answers, adopted, made)
        done.files = placing.place(clone, made, tree, kept)
        names = lock.lock_packages(clone, made, first / "pyproject.toml", packaging, adopted["requirements"], asks)
        placed = {entry.path for entry in done.files}
        done.files += [placing.Entry(name, "new", "the packages found") for name in names if name not in placed]
        done.to_know, done.to_do = packaging.notes, left_to_do(tree, packaging)
        paths = {entry.path for entry in done.files if entry.kind in ("new", "merged")}
        repository.commit(clone, old, f"Adopt the template, version {done.template}", sorted(paths))
        if lost := repository.lost_lines(clone, before):
            raise AdoptError(f"lines would be lost in {', '.join(lost)}, which must not happen: please report it")
        done.commit = "" if dry_run else git(clone, "rev-parse", "HEAD").strip()
        if not dry_run:  # the branch appears: the only change in the repository
            fetch = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", str(clone))
            git(old, *fetch, f"HEAD:refs/heads/{branch}")
    return done


def render(source: tuple[str, str | None], answers: dict[str, Answer], adopted: dict[str, Any], target: Path) -> str:
    """Render the template with the answers found; return its version. Raises AdoptError."""
    given = {name: answer.value for name, answer in answers.items()} | {"adopted": adopted}
    texts = [
        f"{name}={json.dumps(value) if isinstance(value, list | bool | dict) else value}"
        for name, value in given.items()
    ]
    try:
        start(source[0], target, texts, False, source[1])
    except NewError as error:
        raise AdoptError(f'{error}; an answer is changed with ANSWERS="question=answer"') from error
    known = yaml.safe_load((target / ANSWERS).read_text(encoding="utf-8"))
    if adopted["kept"] and "adopted" not in known:
        raise AdoptError(f"version {known['_commit']} of the template cannot adopt: take a newer one, or VERSION=HEAD")
    return str(known["_commit"])


def as_text(done: Adoption) -> str:
    """Return what was found, planned and done."""
    rows = {name: (one.value, f"  ({one.reason})") for name, one in done.answers.items()}
    rows |= {name: (text, "") for name, text in done.found.items()}
    lines = [f"{done.repository}, as the template {done.template} sees it:", ""]
    lines += [
        f"  {name:12}  {value if isinstance(value, str) else json.dumps(value)}{why}"
        for name, (value, why) in rows.items()
    ]
    listed = [one for one in done.files if one.kind not in ("new", "same")]
    lines += ["", *(f"  {one.kind:8}  {one.path}  ({one.how})" for one in listed)]
    counts = Counter(entry.path.split("/")[0] for entry in done.files if entry.kind == "new")
    lines.append("  new       " + ", ".join(f"{name} ({many})" if many > 1 else name for name, many in counts.items()))
    for head, items in (("To know:", done.to_know), ("To do:", done.to_do)):
        lines += ["", head, *(f"  - {text}" for text in items)] if items else []
    if not done.commit:
        return "\n".join([*lines, "", 'Nothing was written. An answer is changed with ANSWERS="question=answer".'])
    lines += ["", f"The branch {done.branch} has it in one commit; your checkout is as it was. Next:", ""]
    lines += [
        f"  cd {done.repository} && git switch {done.branch}",
        "  scripts/setup",
        "  scripts/test && scripts/lint",
    ]
    return "\n".join(lines)


def as_json(done: Adoption) -> str:
    """Return the same for a program."""
    return json.dumps(asdict(done), indent=2, ensure_ascii=False)
