"""Random histories of owners at real releases: no line that an owner wrote ever disappears, killed or not."""

import os
import random
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest
from gpu_repo_runtime.update.git import Git
from gpu_repo_runtime.update.merge import Update, make_update
from gpu_repo_runtime.update.releases import Releases, find_releases
from gpu_repo_runtime.update.render import ANSWERS

from tests.shared import once
from tests.updates.copiers import copier_at
from tests.updates.family import Family
from tests.updates.test_family import ROWS, start
from tests.updates.tiny import MARKER, Child, Program

ALL, QUICK = 300, 3  # histories; those that are not only for a release
KILLED = 0.2  # of the updates are killed first
LONGEST = 3  # seconds until a kill
NOT_TEXT = {".json", ".lock", ".npz", ".whl", ".png"}
Texts = dict[str, list[str]]


def texts(child: Child) -> Texts:
    """Return the lines of every text of the child, but for answers and locks."""
    names = {*child.git("ls-files").splitlines()} - {ANSWERS}
    kept = [name for name in names if Path(name).suffix not in NOT_TEXT and (child.path / name).is_file()]
    return {name: child.read(name).split("\n") for name in sorted(kept)}


def contents(child: Child) -> dict[str, bytes]:
    """Return every file of a child but git's own."""
    files = [path for path in child.path.rglob("*") if path.is_file() and child.path / ".git" not in path.parents]
    return {str(path.relative_to(child.path)): path.read_bytes() for path in files}


class Owner:
    """What an owner does is drawn from `seed`. `lines` are theirs; nobody but they removes them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: set[str] = set()

    def new_lines(self) -> list[str]:
        """Return one or three lines that nobody wrote before."""
        new = [f"# of the owner: {len(self.lines) + number}." for number in range(self.random.choice((1, 1, 3)))]
        self.lines |= {*new}
        return new

    def edited(self, lines: list[str]) -> list[str]:
        """Insert, replace or remove at a random place."""
        place = self.random.randrange(len(lines) + 1)
        cut = place + self.random.choice((0, 0, 1, 2))
        return [*lines[:place], *self.new_lines(), *lines[cut:]]

    def work(self, child: Child, coming: list[str]) -> None:
        """Edit, delete and rename files, add some where the template is going to have one, and commit."""
        for number, (name, lines) in enumerate(texts(child).items()):
            chance = self.random.random()
            if chance < 0.4:
                (child.path / name).write_text("\n".join(self.edited(lines)))
            elif chance < 0.47:
                (child.path / name).unlink()
            if 0.35 < chance < 0.4 or 0.47 < chance < 0.5:  # with and without an edit
                shutil.move(child.path / name, child.path / f"mine_{number}_{Path(name).name}")
        for name in self.random.sample(coming, min(2, len(coming))):
            (child.path / name).parent.mkdir(parents=True, exist_ok=True)
            (child.path / name).write_text("\n".join([*self.new_lines(), ""]))
        child.commit("The owner's work")


def check(owner: Owner, before: Texts, after: Texts, update: Update) -> None:
    """Assert that each line of the owner is still there, and that a file which it moved to or conflicts is named."""
    named = {name for file in update.files for name in (file.path, file.before)}
    for line in owner.lines:
        old, new = ({name for name, lines in found.items() if line in lines} for found in (before, after))
        assert new, f"{line!r} of {sorted(old)} is lost"
        assert new & old or old & named, f"{line!r} moved from {sorted(old)} to {sorted(new)}, which is not named"
    marked = {name for name, lines in after.items() if any(line.startswith(MARKER) for line in lines)}
    assert marked <= {file.path for file in update.conflicts}, "conflict markers that are not named"


def children_of(pid: int) -> list[int]:
    """Return the processes below a process, itself included."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [each for each, parent in parents.items() if parent == one]
    return found


def kill_and_restore(child: Child, releases: Releases, old: str, new: str, seconds: float) -> None:
    """Kill an update after some seconds with all its processes; what the page says restores every file."""
    before = contents(child)
    if (pid := os.fork()) == 0:
        try:
            make_update(Git(child.path), releases, old, new, lock=False)
        finally:
            os._exit(0)
    time.sleep(seconds)
    for one in children_of(pid):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    os.waitpid(pid, 0)
    (child.path / ".git/index.lock").unlink(missing_ok=True)
    child.git("reset", "--quiet", "--hard")
    child.git("clean", "--quiet", "-fd")
    assert contents(child) == before, "a killed update left something behind"


@pytest.fixture(scope="module")
def releases(family: Family, tmp_path_factory: pytest.TempPathFactory) -> Releases:
    """Return the releases of the family, each unpacked once for all histories."""
    return find_releases(str(family.path), Git(tmp_path_factory.mktemp("releases")))


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=pytest.mark.slow if seed < QUICK else pytest.mark.release) for seed in range(ALL)],
)
def test_no_line_of_the_owner_disappears_killed_or_not(
    family: Family, releases: Releases, shared: Path, tmp_path: Path, program: Program, seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """One owner at a release that is drawn with a type and a framework, and the update to the work tree."""
    owner, copier, new = Owner(seed), copier_at(tmp_path / "home"), family.work_tree
    old, answers = owner.random.choice(ROWS)

    def rendered(version: str) -> Child:
        made = once(shared / f"{version}-{answers.id}", lambda path: start(family, path, version, answers))
        return Child(made, copier)

    child = Child(shutil.copytree(rendered(old).path, tmp_path / "child"), copier)
    owner.work(child, sorted(texts(rendered(new)).keys() - texts(child).keys()))
    before = texts(child)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # what a killed update leaves there goes with the test
    if owner.random.random() < KILLED:
        kill_and_restore(child, releases, old, new, owner.random.random() * LONGEST)
    update = make_update(Git(child.path), releases, old, new, lock=False)
    check(owner, before, texts(child), update)
