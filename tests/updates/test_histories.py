"""Random histories of a template and of its owner: no line that the owner wrote ever disappears."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from pathlib import Path
from typing import Protocol

import pytest
from gpu_repo_runtime.update import write_back

from tests.updates.test_write_back import in_a_process
from tests.updates.tiny import Child, Template, make_child

QUICK, ALL, CHUNK = 5, 300, 5
HISTORIES_KILLED, KILLED = 30, 3  # two kills each
MARKS = ("<<<<<<< ", "=======", ">>>>>>> ")


class Update(Protocol):
    """The safe update of one child, run in some way."""

    out: str
    err: str

    def __call__(self, child: Child, *options: str) -> int:
        """Update the child; return the exit code."""


class History:
    """One history: what the template's authors and the owner do is drawn from `seed`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.files = {f"f{n}.txt": [f"f{n} line {m}" for m in range(12)] for n in range(5)}
        self.owner: dict[str, str] = {}  # the owner's line, and the file it was written into

    def fresh(self, who: str) -> str:
        """Return a line that nobody wrote before."""
        self.count += 1
        return f"{who} {self.count}"

    def edit(self, lines: list[str], who: str) -> list[str]:
        """Insert, replace or remove at a random place; the owner's lines are never removed by anybody."""
        place = self.random.randrange(len(lines) + 1)
        cut = self.random.choice((0, 0, 1, 2))
        kept = [line for line in lines[place : place + cut] if line in self.owner]
        new = [self.fresh(who) for _ in range(self.random.choice((1, 1, 3)))]
        return [*lines[:place], *kept, *new, *lines[place + cut :]]

    def evolve(self) -> None:
        """Change the template: lines, and sometimes files added, dropped or renamed."""
        for name in list(self.files):
            chance = self.random.random()
            if chance < 0.5:
                self.files[name] = self.edit(self.files[name], "template")
            elif chance < 0.6:
                del self.files[name]
            elif chance < 0.75:
                moved = (
                    self.edit(self.files.pop(name), "template") if self.random.random() < 0.5 else self.files.pop(name)
                )
                self.files[f"sub/{self.fresh('moved').replace(' ', '')}.txt"] = moved
        if self.random.random() < 0.4 or not self.files:
            self.files[self.random.choice(("own0.txt", "own1.txt", "new.txt"))] = [self.fresh("template")] * 3

    def work(self, child: Child) -> None:
        """Let the owner edit, add, rename and delete files, and commit."""
        tracked = [name for name in child.git("ls-files").splitlines() if name.endswith(".txt")]
        for name in tracked:
            chance = self.random.random()
            lines = child.read(name).splitlines()
            if chance < 0.4:
                self.write(child, name, self.edit(lines, "owner"))
            elif chance < 0.47 and not any(line in self.owner for line in lines):
                (child.path / name).unlink()
            elif chance < 0.52:
                shutil.move(child.path / name, child.path / f"{self.fresh('mine').replace(' ', '')}.txt")
        if self.random.random() < 0.5:
            self.write(
                child, self.random.choice(("own0.txt", "own1.txt")), [self.fresh("owner") for _ in range(4)], True
            )
        child.commit("The owner's work")

    def write(self, child: Child, name: str, lines: list[str], append: bool = False) -> None:
        """Write a file for the owner and remember the lines that are theirs."""
        before = child.read(name).splitlines() if append and child.has(name) else []
        (child.path / name).write_text("\n".join([*before, *lines]) + "\n")
        self.owner.update({line: name for line in lines if line.startswith("owner ")})


def texts(child: Child) -> dict[str, list[str]]:
    """Return the lines of every file of the child that the history is about."""
    return {str(p.relative_to(child.path)): p.read_text().splitlines() for p in child.path.rglob("*.txt")}


def check(history: History, before: dict[str, list[str]], child: Child, reported: dict[str, str], where: str) -> None:
    """Assert that each line of the owner is still there, and is told of where it moved or stands in a conflict."""
    after = texts(child)
    for line in history.owner:
        old = {name for name, lines in before.items() if line in lines}
        new = {name for name, lines in after.items() if line in lines}
        assert new, f"{where}: {line!r} of {sorted(old)} is lost"
        if not new & old:
            assert {reported.get(name) for name in old} <= {"at risk", "conflict"}, f"{where}: {line!r} moved unsaid"
    for name, lines in after.items():
        if any(line.startswith(MARKS[0]) for line in lines):
            told = reported.get(name) == "conflict" or "at risk" in reported.values()
            assert told, f"{where}: {name} has markers and is not told"


def settle(child: Child) -> None:
    """Settle conflicts as an owner who keeps both sides, and commit."""
    for name, lines in texts(child).items():
        kept = [line for line in lines if not line.startswith(MARKS)]
        if kept != lines:
            (child.path / name).write_text("\n".join(kept) + "\n")
    child.commit("Update")


def kill_while_writing(history: History, child: Child, program: Update, monkeypatch: pytest.MonkeyPatch) -> None:
    """Update the child and kill it at any of the steps of the writing."""
    share, lay_down = history.random.random(), write_back.lay_down
    left = 0

    def begin(folder: Path, path: Path, tree: Path, journal: write_back.Journal) -> None:
        nonlocal left
        left = int(share * (2 * len(journal.paths) + 3))  # each file is laid down and put; the journal, index and end
        lay_down(folder, path, tree, journal)

    def step(_: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(write_back, "lay_down", begin)
        patch.setattr(write_back, "step", step)
        assert in_a_process(lambda: program(child)) == -signal.SIGKILL


def play(seed: int, template: Template, folder: Path, program: Update, kill: pytest.MonkeyPatch | None = None) -> None:
    """Play one history of three releases and two updates, each of which may be killed first."""
    history = History(seed)
    child = None
    for release in range(1, 4):
        template.release(f"v{release}.0.0", {name: "\n".join(lines) + "\n" for name, lines in history.files.items()})
        if child is None:
            child = make_child(template, folder)
        else:
            history.work(child)
            before = texts(child)
            if kill:
                kill_while_writing(history, child, program, kill)
            code = program(child, "--json")
            where = f"history {seed}, update to v{release}.0.0"
            assert code in (0, 3, 4), f"{where}: exit code {code}: {program.err}"
            check(history, before, child, {f["path"]: f["kind"] for f in json.loads(program.out)["files"]}, where)
            settle(child)
        history.evolve()


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(
            first, marks=pytest.mark.slow if first < QUICK else pytest.mark.release, id=f"{first}-{first + CHUNK - 1}"
        )
        for first in range(0, ALL, CHUNK)
    ],
)
def test_no_line_of_the_owner_disappears(
    first: int,
    template: Template,
    tmp_path: Path,
    program: Update,
) -> None:
    for seed in range(first, first + CHUNK):
        place = tmp_path / str(seed)
        place.mkdir()
        play(seed, Template(place / "template", template.copier), place / "child", program)
        shutil.rmtree(place)


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [pytest.param(first, id=f"{first}-{first + KILLED - 1}") for first in range(ALL, ALL + HISTORIES_KILLED, KILLED)],
)
def test_a_kill_while_writing_loses_no_line_either(
    first: int, template: Template, tmp_path: Path, program: Update, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(first, first + KILLED):
        place = tmp_path / str(seed)
        place.mkdir()
        play(seed, Template(place / "template", template.copier), place / "child", program, monkeypatch)
        shutil.rmtree(place)
