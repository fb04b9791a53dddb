"""Random histories of a template and of its owner: no line that the owner wrote ever disappears."""

import json
import os
import random
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.updates.tiny import Child, Program, Template, make_child

ALL, KILLED, CHUNK = 300, 10, 5  # histories, those whose two updates are killed besides, and those of one test
LONGEST = 0.6  # seconds until a kill
MARKS = ("<<<<<<< ", "=======", ">>>>>>> ")


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


def check(history: History, before: dict[str, list[str]], child: Child, report: dict[str, Any], where: str) -> None:
    """Assert that each line of the owner is still there, and that a file which it moved to or conflicts is named."""
    after = texts(child)
    named = {name for file in report["files"] for name in (file["path"], file["before"]) if name}
    for line in history.owner:
        old = {name for name, lines in before.items() if line in lines}
        new = {name for name, lines in after.items() if line in lines}
        assert new, f"{where}: {line!r} of {sorted(old)} is lost"
        assert new & old or old & named, f"{where}: {line!r} moved from {sorted(old)} to {sorted(new)}, not named"
    conflicts = {file["path"] for file in report["files"] if file["kind"] == "conflict"}
    for name, lines in after.items():
        if any(line.startswith(MARKS[0]) for line in lines):
            assert name in conflicts, f"{where}: {name} has markers and is not named"


def settle(child: Child) -> None:
    """Settle conflicts as an owner who keeps both sides, and commit."""
    for name, lines in texts(child).items():
        kept = [line for line in lines if not line.startswith(MARKS)]
        if kept != lines:
            (child.path / name).write_text("\n".join(kept) + "\n")
    child.commit("Update")


def contents(child: Child) -> dict[str, bytes]:
    """Return every file of a child but git's own."""
    files = [path for path in child.path.rglob("*") if path.is_file() and child.path / ".git" not in path.parents]
    return {str(path.relative_to(child.path)): path.read_bytes() for path in files}


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


def kill_and_restore(history: History, child: Child, program: Program) -> None:
    """Kill an update at a random moment with all its processes; what the page says restores every file."""
    before = contents(child)
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = program(child)
        finally:
            os._exit(code)
    time.sleep(history.random.random() * LONGEST)
    for one in children_of(pid):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    os.waitpid(pid, 0)
    (child.path / ".git/index.lock").unlink(missing_ok=True)
    child.git("reset", "--quiet", "--hard")
    child.git("clean", "--quiet", "-fd")
    assert contents(child) == before, "a killed update left something behind"


def play(seed: int, template: Template, folder: Path, program: Program, kill: bool = False) -> None:
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
                kill_and_restore(history, child, program)
            code = program(child, "--json")
            where = f"history {seed}, update to v{release}.0.0"
            assert code in (0, 3), f"{where}: exit code {code}: {program.err}"
            check(history, before, child, json.loads(program.out), where)
            settle(child)
        history.evolve()


CASES = [(first, first >= ALL) for first in range(0, ALL + KILLED, CHUNK)]


@pytest.mark.parametrize(
    ("first", "kill"),
    [
        pytest.param(first, kill, marks=pytest.mark.slow if first < CHUNK or kill else pytest.mark.release)
        for first, kill in CASES
    ],
)
def test_no_line_of_the_owner_disappears_killed_or_not(
    first: int, kill: bool, template: Template, tmp_path: Path, program: Program
) -> None:
    for seed in range(first, first + CHUNK):
        place = tmp_path / str(seed)
        place.mkdir()
        play(seed, Template(place / "template", template.copier), place / "child", program, kill)
        shutil.rmtree(place)
