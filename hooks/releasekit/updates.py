"""Real updates of edited children, from every recent release to the work tree.

The work tree gets one more line at the end of every file that it renders: each managed file has a fix that must
arrive, and each seed one that must not.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from copier import Settings, run_update
from gpu_repo_runtime.update.git import Git
from gpu_repo_runtime.update.merge import make_update
from gpu_repo_runtime.update.releases import Releases
from gpu_repo_runtime.update.render import ANSWERS, owner_of, owners_in, tree_of, with_answers
from releases import order

from releasekit.compare import check_answers, renew
from releasekit.findings import Entry, Finding, read_entries, retired_since
from releasekit.template import Answers, Template, answers_of, files_of, random_answers, read_template, start

FIX = b"# the template's fix\n"
LINE = b"# the owner's line\n"
SAFE, PLAIN = "the update", "plain copier update"


def recent(versions: list[str]) -> list[str]:
    """Return the releases of the last two minor versions, oldest first."""
    minors = sorted({order(version)[:2] for version in versions})[-2:]
    return [version for version in versions if order(version)[:2] in minors]


def release_fixes(releases: Releases, new: Template, tag: str) -> None:
    """Write one more line into every file that the work tree renders, and release it as `tag`."""
    for path in (path for path in new.root.rglob("*") if path.is_file() and not path.is_symlink()):
        aside = "wheels" in path.relative_to(new.folder).parts or "answers_file" in path.name
        if not aside and path.parent != new.folder / "templates" and b"\0" not in (text := path.read_bytes()):
            path.write_bytes(text.removesuffix(b"\n") + b"\n" + FIX)
    tree = tree_of(releases.git, new.folder, lambda _: False)
    releases.git.text("tag", "--no-sign", tag, releases.git.text("commit-tree", tree, "-m", tag))


def update_children(pool: ProcessPoolExecutor, releases: Releases, new: Template, tag: str
                    ) -> Iterator[tuple[str, list[Finding]]]:  # fmt: skip
    """Release the work tree with fixes as `tag`, and update a child to it for each choice of the first question.

    Other answers are random.
    """
    release_fixes(releases, new, tag)
    entries, last, started = read_entries(new.folder), releases.names[-1], []
    for name in recent(releases.names):
        template, retired = read_template(releases.unpacked(name)), retired_since(entries, name, last)
        first, draw = next(iter(template.choices)), Random(tag + name)
        for value in template.choices[first]:
            answers = random_answers(template, draw, template.choices) | {first: value}
            done = pool.submit(check_update, releases, tag, template, name, answers, retired)
            started.append((" ".join(map(str, answers.values())), done))
    yield from ((name, done.result()) for name, done in started)


def edit(child: Path) -> str:
    """Edit what an owner edits: every seed, one managed file, a file of their own; return the managed file."""
    owners = owners_in(child)
    texts = [path for path in sorted(files_of(child)) if b"\0" not in (child / path).read_bytes()]
    managed = [one for one in texts if owner_of(one, owners) == "managed" and not one.startswith(".copier-")][:1]
    (child / "own.txt").touch()
    for path in ["own.txt", *managed, *(one for one in texts if owner_of(one, owners) == "seed")]:
        (child / path).write_bytes(LINE + (child / path).read_bytes())
    return "".join(managed)


def check_update(releases: Releases, tag: str, template: Template, version: str, chosen: Answers,
                 retired: set[Entry]) -> list[Finding]:  # fmt: skip
    """Start an edited child of a version, update it, and compare it with a new child; return what is wrong.

    A child of the last release also updates by plain Copier. A child with a retired answer stays where it is.
    """
    found = []
    with TemporaryDirectory() as name:
        child, fresh = Path(name, "child"), Path(name, "fresh")
        answers = start(template, chosen, child)
        if {("choice", f"{key}={value}") for key, value in answers.items()} & retired:
            return []
        own = {"_commit": version, "_src_path": str(releases.git.folder)}
        (child / ANSWERS).write_bytes(with_answers((child / ANSWERS).read_text(encoding="utf-8"), {}, own))
        renew(child, releases.unpacked(tag), fresh)
        edited, git = edit(child), Git(child)
        git.text("init", "--quiet")
        git.text("add", "--all", "--force")
        git.text("commit", "--quiet", "--message=Start from the template, with the owner's edits")
        for way in (SAFE, PLAIN) if version == releases.names[-1] else (SAFE,):
            after = Path(name, way.replace(" ", "-"))
            git.text("clone", "--quiet", str(child), str(after))
            try:
                if way == SAFE:
                    make_update(Git(after), releases, version, tag, lock=False)
                else:
                    with redirect_stderr(StringIO()):  # with quiet=True Copier would not render its messages
                        run_update(after, defaults=True, overwrite=True, vcs_ref=tag, settings=Settings())
                wrong = [*check_result(child, after, fresh, edited, retired, tag)]
            except Exception as error:  # Copier, Jinja and the template raise errors of many types
                wrong = [Finding(f"the update fails: {' '.join(str(error).split())[:300]}")]
            found += [Finding(f"{way} of a child of {version[1:]}: {one.reason}", one.entries) for one in wrong]
    return found


def check_result(before: Path, after: Path, fresh: Path, edited: str, retired: set[Entry], tag: str
                 ) -> Iterator[Finding]:  # fmt: skip
    """Find answers that an update loses, and files that it loses, overwrites or leaves without the fix."""
    yield from check_answers(answers_of(before, own=False) | {"_commit": tag}, answers_of(after, own=False))
    owned, new_owned = owners_in(before), owners_in(fresh)
    skipped = {path for kind, path in retired if kind == "file"} | {ANSWERS}
    for path in sorted((files_of(before) | files_of(fresh)) - skipped):
        places = (before / path, after / path, fresh / path)
        was, now, new = (place.read_bytes() if place.is_file() else None for place in places)
        owner = owner_of(path, new_owned if was is None else owned)
        if path == edited:
            if LINE not in (now or b""):
                yield Finding(f"it loses the owner's line in {path}")
        elif owner == "managed":
            if now != new:
                yield Finding(f"{path} is managed, and no fix of it arrives")
        elif was not in (None, now):
            yield Finding(f"{path} is the owner's, and it changes it")
