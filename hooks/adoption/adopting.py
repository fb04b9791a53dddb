"""The whole of an adoption: read, render, merge, lock, commit in a clone; the branch appears when all of it worked."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from gpu_repo_runtime.update.answers import ANSWERS
from gpu_repo_runtime.update.git_calls import git
from new import NewError, start

from adoption import baseline, locks, merge, optional, plan, repository
from adoption.detect import detect
from adoption.findings import Answer, Findings
from adoption.imports import add_imported, add_tested
from adoption.packaging_found import read_packaging
from adoption.repository import AdoptError
from adoption.room import furnish, take_out
from adoption.tree import Tree, read_tree, restore, without_strangers


@dataclass
class Adoption:
    """What was found, planned and done."""

    repository: Path
    branch: str
    findings: Findings
    entries: list[plan.Entry]
    image: str
    version: str
    notes: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    commit: str = ""


@dataclass(frozen=True)
class Wish:
    """What the person asked for."""

    repository: Path
    branch: str
    answers: dict[str, str]
    take: frozenset[str]
    template: str
    version: str | None


def adopt(wish: Wish, dry_run: bool) -> Adoption:
    """Adopt a repository, or do all of it but write the branch. Raises AdoptError; the repository is then as it was."""
    repository.check(wish.repository, wish.branch)
    with repository.cloned(wish.repository) as clone, TemporaryDirectory(prefix="adopt-") as folder:
        before = git(clone, "rev-parse", "HEAD").strip()
        tree = read_tree(clone)
        strangers = without_strangers(tree)
        packaging = read_packaging(clone)
        add_imported(packaging, tree)
        add_tested(packaging, tree)
        findings = detect(tree, packaging, wish.repository.resolve().name, wish.answers)
        first = Path(folder) / "first"
        answers = [f"{name}={_said(answer.value)}" for name, answer in findings.answers.items()]
        try:
            rendered(wish, first, answers)
        except AdoptError as error:
            if "framework cannot be" not in str(error) or "framework" in wish.answers:
                raise
            none = f"{findings.answers['framework'].reason}; this version of the template has no such choice"
            findings.answers["framework"] = Answer("plain", none)
            answers = [f"{name}={_said(answer.value)}" for name, answer in findings.answers.items()]
            rendered(wish, first, answers)
        kept = plan.kept_paths(tree, files(first), set(wish.take))
        given = plan.adopted(tree, findings, kept)
        render, room, locked, out = _locked(wish, clone, first, answers, given, findings)
        done = Adoption(wish.repository, wish.branch, findings, [], *_follows(render), open=[*findings.open])
        done.entries = plan.entries(tree, render, kept, set(wish.take))
        place(clone, render, done, tree)
        take_out(room, clone, str(given["requirements"]))
        _tell_locked(clone, done, tree, locked, out, str(given["requirements"]))
        _lint_from_here(clone, done, tree, wish.take)
        done.notes += [said] if (said := repository.unsigned(wish.repository)) else []
        if twins := plan.twice_named(tree, files(render)):
            done.notes.append(
                f"{', '.join(twins)}: one folder with the template's ({', '.join(map(str.lower, twins))}) "
                "where capitals do not count (macOS, Windows)"
            )
        restore(tree, strangers)
        written = sorted(set(_changed(clone, done.entries)))
        repository.commit(clone, wish.repository, f"Adopt the template, version {done.version}", written)
        if lost := repository.lost_lines(clone, before):
            raise AdoptError(f"lines would be lost in {', '.join(lost)}, which must not happen: please report it")
        done.commit = git(clone, "rev-parse", "HEAD").strip()
        if not dry_run:
            repository.publish(clone, wish.repository, wish.branch)
    return done


def _said(value: object) -> str:
    return json.dumps(value) if isinstance(value, list | bool) else str(value)


def rendered(wish: Wish, target: Path, answers: list[str]) -> None:
    """Render the template with these answers. Raises AdoptError."""
    try:
        start(wish.template, target, answers, False, wish.version)
    except NewError as error:
        about = any(re.search(rf"\b{answer.partition('=')[0]}\b", str(error)) for answer in answers)
        more = '; an answer is changed with DATA="question=answer"' if about else ""  # a full disk is not an answer
        raise AdoptError(f"{error}{more}") from error
    if any(answer.startswith("adopted=") for answer in answers):
        known = yaml.safe_load((target / ANSWERS).read_text(encoding="utf-8"))
        if "adopted" not in known:
            raise AdoptError(
                f"version {known.get('_commit')} of the template cannot adopt yet: take a newer one, or VERSION=HEAD"
            )


def files(folder: Path) -> list[str]:
    """Return the paths of all files in a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _follows(render: Path) -> tuple[str, str]:
    """Return the image and the version of the template that a render follows."""
    image = re.search(r"ARG BASE_IMAGE=\S*/([\w.-]+):", next(render.glob("*Dockerfile")).read_text(encoding="utf-8"))
    known = yaml.safe_load((render / ANSWERS).read_text(encoding="utf-8"))
    return image[1] if image else "", str(known["_commit"])


def _locked(
    wish: Wish, clone: Path, first: Path, answers: list[str], given: dict[str, object], findings: Findings
) -> tuple[Path, Path, locks.Locked, list[tuple[str, str]]]:
    """Render with what was there before and lock the packages, away from every file of the repository.

    A pyproject.toml that cannot be locked as it is gives its packages to requirements.in. Returns the render, the
    folder with the locks, how locking ended, and what is left out.
    """
    pyproject, image = (first / "pyproject.toml").read_text(encoding="utf-8"), _follows(first)[0]
    for name in ("as it is", "written down"):
        wanted, asks = locks.wanted_of(first, pyproject, findings, image)
        render, room = first.with_name(f"render {name}"), first.with_name(f"room {name}")
        rendered(wish, render, [*answers, f"adopted={json.dumps(({'asks': True} if asks else {}) | given)}"])
        furnish(room, render, clone / "pyproject.toml")
        locked = locks.resolve(room, str(given["requirements"]), wanted, asks, image)
        if not asks or locked.asks:
            break
        findings.packaging.static = False
    return render, room, locked, wanted.out


def _tell_locked(
    clone: Path, done: Adoption, tree: Tree, locked: locks.Locked, out: list[tuple[str, str]], prefix: str
) -> None:
    """Say what is not locked: to do, or only to know where the code goes on without it."""
    done.notes += locked.notes
    done.open += locked.open
    told = {name: (said.removesuffix(locks.WAYS_OUT).rstrip(), said) for name, said in locked.out.items()}
    for text, reason in out:
        if not any(text in said for said in [*locked.open, *locked.out.values()]):
            told[text] = (f"{text} is not locked: {reason}",) * 2
    for name, (plain, said) in told.items():
        if file := optional.goes_without(tree, name):
            done.notes.append(f"{plain.removesuffix('.')}; {file} goes on without it")
        else:
            done.open.append(said)
    done.entries += [plan.Entry(path.name, "new", "the packages found") for path in sorted(clone.glob(f"{prefix}*.in"))]


def _lint_from_here(clone: Path, done: Adoption, tree: Tree, take: frozenset[str]) -> None:
    own = plan.other_settings(tree).get("ruff.toml", "") if "ruff.toml" not in take else ""
    own = "ruff.toml" if not own and "ruff.toml" in tree.paths and "ruff.toml" not in take else own
    summary = baseline.write_baseline(clone, own, tree.submodules)
    done.entries.append(plan.Entry(baseline.NAME, "new", f"lets be what was there: {summary}"))


def refused_line(text: str) -> str:
    """Return the first line of an .env that the scripts refuse, "" where there is none."""
    for number, line in enumerate(text.splitlines(), 1):
        name = re.match(r"\s*(?:export\s+)?([A-Za-z_]\w*)=", line)
        if line.strip() and not line.lstrip().startswith("#") and not name:
            return f"line {number} is not NAME=VALUE"
        if name and name[1] in ("HOME", "IFS", "PATH", "PYTHONPATH"):
            return f"line {number}: {name[1]} is for the scripts to set"
    return ""


def place(clone: Path, render: Path, done: Adoption, tree: Tree) -> None:
    """Write the files of the template into the clone, and into those that both have what the template adds."""
    new = []
    project = str(done.findings.answers["project_name"].value)
    for entry in done.entries:
        source, target = render / entry.path, clone / entry.path
        if entry.kind in ("new", "same", "taken") and source.is_file():
            if entry.kind == "taken":
                shutil.move(target, target.with_name(f"{target.name}.before"))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            new.append(entry.path)
        elif entry.kind == "merged":
            more = source.read_text(encoding="utf-8")
            theirs = merge.read(target)
            text = f"{theirs}{merge.section(project)}" if entry.path == "README.md" else merge.united(theirs, more)
            merge.write(target, text)
    edit(clone, done, tree, new)
    if ".env" in tree.paths and (line := refused_line(tree.text(".env"))):
        done.open.append(f".env, {line}: every script refuses it until that line is gone")
    merge.unignored(clone, new)
    done.notes += [
        f".gitattributes: {line}, so that Git LFS leaves it alone" for line in merge.kept_out_of_lfs(clone, new)
    ]
    merge.kept_binary(clone, new)
    automatic = repository.turns_line_ends(done.repository)
    if lines := merge.kept_from_crlf(clone, new, tree.paths, automatic):
        done.notes.append(
            f".gitattributes: eol=lf in {len(lines)} lines for files of the template, which would not run with CRLF"
        )
    if tree.submodules:
        done.notes.append(
            f"submodules ({', '.join(tree.submodules)}): they stay as they are, and CI has to check them out"
        )


def edit(clone: Path, done: Adoption, tree: Tree, new: list[str]) -> None:
    """Fit files of the template to what is there."""
    glue = done.findings.answers["package_name"].value
    model = clone / "src" / glue / "model.py"
    model.write_text(merge.pointed(model.read_text(encoding="utf-8"), done.findings), encoding="utf-8")
    if "pytest.ini" in new:
        file = clone / "pytest.ini"
        file.write_text(merge.test_settings(tree, file.read_text(encoding="utf-8")), encoding="utf-8")
    if said := merge.found_packages(clone, done.findings, glue):
        done.entries = [entry for entry in done.entries if entry.path != "pyproject.toml"]
        done.entries.append(plan.Entry("pyproject.toml", "merged", said))
    elif left := merge.searched(tree, done.findings, str(glue)):
        done.open.append(left)


def _changed(clone: Path, entries: list[plan.Entry]) -> list[str]:
    """Return the paths that were written, ignored ones included, and not what differs by its line ends alone."""
    ours = {entry.path for entry in entries} | {".gitattributes"}
    changed = git(clone, "diff", "--name-only", "-z", "HEAD").split("\0")
    more = git(clone, "ls-files", "--others", "-z").split("\0")
    return [path for path in [*changed, *more] if path in ours or (path and path in more)]
