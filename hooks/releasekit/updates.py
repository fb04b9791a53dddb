"""Real updates of edited children, from every release that children may still follow to the work tree.

The work tree gets a line more at the end of every file that it renders: so each managed file has a fix that must
arrive, and each seed one that must not.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from copier import run_copy
from fleetkit.speed import compile_templates_once, read_yaml_fast, share_checkouts
from gpu_repo_runtime.update.answers import ANSWERS, HASH, read_answers
from gpu_repo_runtime.update.git_calls import UpdateError, as_nobody, git
from gpu_repo_runtime.update.outcome import files_under
from gpu_repo_runtime.update.ownership import OWNERSHIP, owners_in
from gpu_repo_runtime.update.trial import trial
from gpu_repo_runtime.update.write_back import read
from jinja2.sandbox import SandboxedEnvironment
from releases import order

from releasekit.questions import NAME, Answers, answer_sets, choices, name_of, questions, settings_of
from releasekit.trees import export

FIX = "# the template's fix\n"
LINE = "# the owner's line\n"
AUTHOR = ("-c", "user.name=Release check", "-c", "user.email=release-check@example.invalid")


@dataclass(frozen=True)
class Start:
    """One child to update: the release that it follows and its answers."""

    version: str
    answers: Answers

    @property
    def where(self) -> str:
        """Name it for people."""
        return f"a child of {self.version}, {name_of(self.answers)}"


def recent(known: dict[str, str]) -> list[str]:
    """Return the releases of the last two minor versions, oldest first."""
    minors = sorted({order(version)[:2] for version in known})[-2:]
    return [version for version in known if order(version)[:2] in minors]


def add_fixes(template: Path) -> None:
    """Put FIX at the end of every text file that the template may render."""
    settings = settings_of(template)
    environment = SandboxedEnvironment()
    folders = {
        environment.from_string(str(settings.get("_subdirectory", "."))).render(**NAME | answers)
        for answers in answer_sets(template)
    }
    for folder in sorted(folders):
        for path in sorted((template / folder).rglob("*")):
            inside = ".git" in path.relative_to(template).parts or "answers_file" in path.name
            if inside or path.is_symlink() or not path.is_file() or b"\0" in (text := path.read_bytes()):
                continue
            path.write_bytes(text.removesuffix(b"\n") + b"\n" + FIX.encode())


def make_family(repository: Path, known: dict[str, str], tree: str, tag: str, folder: Path) -> Path:
    """Return a clone with a tag for each of the `known` releases and the work tree, with fixes, as `tag`."""
    git(repository, "clone", "--quiet", "--no-tags", "--no-checkout", "--", str(repository), str(folder))
    for version, commit in known.items():
        git(folder, "tag", f"v{version}", commit)
    export(repository, tree, folder)
    add_fixes(folder)
    git(folder, "add", "--all", "--force")
    made = git(folder, *AUTHOR, "commit-tree", git(folder, "write-tree").strip(), "-p", "HEAD", "-m", tag).strip()
    git(folder, "tag", tag, made)
    return folder


def starts(template: Path, version: str) -> list[Start]:
    """Return children of one release: one for each choice of its first question, the other answers in turn."""
    sets = answer_sets(template)
    first = next((name for name, question in questions(template).items() if choices(question)), None)
    groups: dict[str, list[Answers]] = {}
    for answers in sets:
        groups.setdefault(str(answers.get(first or "")), []).append(answers)
    turn = sum(order(version))
    return [Start(version, group[turn % len(group)]) for group in groups.values()]


def render(family: Path, version: str, answers: Answers, folder: Path) -> None:
    """Render one version of the family."""
    with as_nobody(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_copy(str(family), folder, data=answers, vcs_ref=version, defaults=True, quiet=True, overwrite=True)


def commit(child: Path, message: str) -> None:
    """Commit everything in the child."""
    git(child, "add", "--all", "--force")
    git(child, *AUTHOR, "commit", "--quiet", "--no-verify", f"--message={message}")


def is_text(text: bytes | None) -> bool:
    """Tell whether a file can take a line of its owner."""
    return text is not None and b"\0" not in text


def edit(child: Path) -> list[str]:
    """Edit what an owner edits: every seed, one managed file, a file of their own; return the managed file."""
    owners = owners_in(child)
    paths = sorted(files_under(child))
    for path in paths:
        if owners.of(path) == "seed" and is_text(read(child / path)):
            (child / path).write_bytes((child / path).read_bytes() + LINE.encode())
    managed = [p for p in paths if owners.of(p) == "managed" and p not in (ANSWERS, OWNERSHIP)]
    chosen = [path for path in managed if is_text(read(child / path))][:1]
    for path in chosen:
        (child / path).write_bytes(LINE.encode() + (child / path).read_bytes())
    (child / "own.txt").write_text(LINE, encoding="utf-8")
    return chosen


def answers_lost(before: Answers, after: Answers, excused: set[tuple[str, str]]) -> Iterator[str]:
    """Give what is wrong with the answers after an update."""
    for key in ("_commit", "_src_path"):
        if not isinstance(after.get(key), str):
            yield f"{ANSWERS} has no {key} after it: the child can never update again"
    for name, value in before.items():
        if name.startswith("_") or ("question", name) in excused or ("choice", f"{name}={value}") in excused:
            continue
        if name not in after:
            yield f"the answer {name}={value} is gone after it"
        elif after[name] != value:
            yield f"the answer {name}={value} has become {after[name]}"


def problems_of(tree: Path, child: Path, fresh: Path, chosen: list[str], gone: set[str]) -> Iterator[str]:
    """Give what an update did wrong to the files of a child."""
    owners, new_owners = owners_in(child), owners_in(fresh)
    for path in sorted(files_under(child)):
        before, after, new = (read(folder / path) for folder in (child, tree, fresh))
        owner = new_owners.of(path) if new is not None else owners.of(path)
        if owners.of(path) == "seed" or owner is None:
            if before != after:
                yield f"{path} is the owner's, and it changes it"
        elif path in chosen:
            if LINE.encode() not in (after or b"") and path not in gone:
                yield f"it loses what the owner wrote into {path}"
        elif path != ANSWERS and after != new and path not in gone:
            told = (
                "and no fix of it arrives (_exclude, _skip_if_exists)"
                if after == before
                else "but not what a new child gets"
            )
            yield f"{path} is managed, {told}"
    for path in sorted(files_under(fresh) - files_under(child)):
        if new_owners.of(path) == "managed" and not os.path.lexists(tree / path):
            yield f"{path} is new and managed, and does not arrive"


def check_one(family: Path, tag: str, start: Start, excused: set[tuple[str, str]]) -> list[str]:
    """Update one child and return what was wrong; an answer set that its release refuses has no child."""
    with TemporaryDirectory(prefix="release-check-") as name:
        folder = Path(name)
        child = folder / "child"
        try:
            render(family, f"v{start.version}", start.answers, child)
        except Exception:  # the comparison of the answer sets says why
            return []
        git(child, "init", "--quiet")
        commit(child, "Start from the template")
        chosen = edit(child)
        commit(child, "The owner's edits")
        try:
            before, text = read_answers(child), (child / ANSWERS).read_text(encoding="utf-8")
            with trial(child, tag) as made:
                assert made is not None
                after = yaml.safe_load((made.tree / ANSWERS).read_text(encoding="utf-8")) or {}
                wrong = list(answers_lost(before, after, excused))
                if HASH.search(text) and not HASH.search((made.tree / ANSWERS).read_text(encoding="utf-8")):
                    wrong.append(
                        f"{ANSWERS} no longer says which commit the version was, so a moved tag is not noticed"
                    )
                known = {key: value for key, value in after.items() if not key.startswith("_")}
                render(family, tag, known, folder / "fresh")
                gone = {name for kind, name in excused if kind == "file"}
                return wrong + list(problems_of(made.tree, child, folder / "fresh", chosen, gone))
        except (UpdateError, subprocess.CalledProcessError, OSError, yaml.YAMLError, ValueError) as error:
            given = {("choice", f"{key}={value}") for key, value in start.answers.items()}
            if given & excused:
                return []
            return [f"it fails: {str(error).splitlines()[0]}"]


def start_worker(folder: str) -> None:
    """Let a worker share its checkouts of the family and compile each template once."""
    own = Path(folder, "workers", str(os.getpid()))
    os.environ["COPIER_CACHE_DIR"] = str(own / "cache")
    share_checkouts(own / "checkouts")
    read_yaml_fast()
    compile_templates_once()


def failures(
    family: Path, tag: str, jobs: list[tuple[Start, set[tuple[str, str]]]], folder: Path
) -> Iterator[tuple[Start, list[str]]]:
    """Update every child of `jobs` and give what was wrong with each."""
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), context, start_worker, (str(folder),)) as pool:
        made = [pool.submit(check_one, family, tag, start, excused) for start, excused in jobs]
        for (start, _), job in zip(jobs, made, strict=True):
            yield start, job.result()
    shutil.rmtree(folder / "workers", ignore_errors=True)
