"""Random histories of a template and of its owner, with updates that are killed: whether a line of the owner is lost.

Half of the kills come at a random moment, the others at a random step of the writing; the next run has to finish or
repeat the update. Writes benchmarks/results/histories.json.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import plumbum
from gpu_repo_runtime.update import cli, template_versions, write_back
from tqdm import tqdm

from benchmarks.result_files import machine, write_result
from tests.updates.copiers import copier_at
from tests.updates.test_histories import play
from tests.updates.tiny import Child, Template

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "benchmarks" / "results" / "histories.json"
LONGEST, STEPS = 1.5, 12  # seconds and steps among which a kill is drawn
UPDATES = 2  # in one history
MOMENT, STEP = "at a moment", "at a step"


@dataclass
class KilledUpdate:
    """The safe update, of which some runs are killed before the one that counts."""

    environment: dict[str, str]
    drawn: random.Random
    kills: int = 0
    hit: list[str] = field(default_factory=list)
    resumed: int = 0
    calls: int = 0
    out: str = ""
    err: str = ""

    def __call__(self, child: Child, *options: str) -> int:
        """Update the child, after a kill where one is due; return the exit code."""
        self.calls += 1
        due = self.kills and (self.calls == UPDATES or self.drawn.random() < 0.5)
        for _ in range(20 if due else 0):
            if self.killed(child, options):
                self.kills -= 1
                break
        waits = (write_back.journal_folder(child.path) / "journal.json").exists()
        code = self.run(child, options)
        self.resumed += waits and code in (0, 3, 4)
        return code

    def killed(self, child: Child, options: tuple[str, ...]) -> bool:
        """Run an update that is to be killed; return whether it was, which it is not where it was done before."""
        way = self.drawn.choice((MOMENT, STEP))
        at = self.drawn.uniform(0, LONGEST) if way == MOMENT else self.drawn.randrange(STEPS)
        copy = child.git("rev-parse", "HEAD")
        code = self.run(child, options, way, at)
        if code == -signal.SIGKILL:
            self.hit.append(way)
            written = child.status() and not (write_back.journal_folder(child.path) / "journal.json").exists()
            if written:  # killed after the writing, before it was told of: the tree has to be the new one
                self.whole(child, options, copy.strip())
            return True
        restore(child, copy.strip())
        return False

    def whole(self, child: Child, options: tuple[str, ...], before: str) -> None:
        """Assert that a killed update left all that one does which nobody kills; leave the child as it was before."""
        left = contents(child)
        assert (self.run(child, options), "is written and not committed" in self.err) == (1, True), self.err
        restore(child, before)
        self.run(child, options)
        assert contents(child) == left, "a kill left a tree that is neither the old one nor the new one"
        restore(child, before)

    def run(self, child: Child, options: tuple[str, ...], way: str = "", at: float = 0) -> int:
        """Run the program in a process of its own; return its exit code."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            pid = os.fork()
            if pid == 0:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                self.be_program(child, options, way, at)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            for file in (out, err):
                file.seek(0)
            self.out, self.err = out.read(), err.read()
        return code

    def be_program(self, child: Child, options: tuple[str, ...], way: str, at: float) -> None:
        """Run the program in this process, which ends with it."""
        code = 99
        try:
            for environment in (os.environ, plumbum.local.env):
                environment.clear()
                environment.update(self.environment)
            if way == MOMENT:
                threading.Timer(at, os.kill, (os.getpid(), signal.SIGKILL)).start()
            if way == STEP:
                left = iter([None] * int(at))
                write_back.step = lambda _: next(left, "now") == "now" and os.kill(os.getpid(), signal.SIGKILL)
            sys.argv = ["update", "--repository", str(child.path), *options]
            template_versions.fetched.cache_clear()
            code = cli.main()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def restore(child: Child, commit: str) -> None:
    """Put a child back to a commit."""
    child.git("reset", "--quiet", "--hard", commit)
    child.git("clean", "--quiet", "-ffdx")


def contents(child: Child) -> dict[str, bytes]:
    """Return every file of a child but git's own."""
    files = [
        path for path in child.path.rglob("*") if path.is_file() and ".git" not in path.relative_to(child.path).parts
    ]
    return {str(path.relative_to(child.path)): path.read_bytes() for path in files}


def one(seed: int, first: int, kill_every: int) -> dict[str, object]:
    """Play one history; return what was killed in it. Raises AssertionError where a line is lost."""
    with TemporaryDirectory(prefix="history-") as name:
        copier = copier_at(Path(name) / "home")
        kills = 1 if kill_every and (seed - first) % kill_every == 0 else 0
        update = KilledUpdate(copier.environment(), random.Random(seed), kills)
        try:
            play(seed, Template(Path(name) / "template", copier), Path(name) / "child", update)
        except AssertionError as error:
            return {"seed": seed, "lost": str(error), "hit": update.hit, "resumed": update.resumed}
        return {"seed": seed, "lost": "", "hit": update.hit, "resumed": update.resumed}


def main() -> None:
    """Play the histories and write what was found; lost lines are an exit code of 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=300)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1000, help="of the first history; each has the next one")
    parser.add_argument(
        "--minutes", type=float, default=60, help="begin no history after (the result says how many ran)"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    started = time.monotonic()
    seeds = range(options.seed, options.seed + options.histories)
    work = partial(one, first=options.seed, kill_every=options.histories // options.kills if options.kills else 0)
    found = []
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for told in tqdm(pool.imap_unordered(work, seeds), total=len(seeds), disable=not sys.stderr.isatty()):
            found.append(told)
            if time.monotonic() - started > 60 * options.minutes:
                break
    lost = [str(each["lost"]) for each in found if each["lost"]]
    hit = [way for each in found for way in each["hit"]]  # type: ignore[attr-defined]
    result = {
        "machine": machine(copier=version("copier")),
        "first_seed": options.seed,
        "histories": len(found),
        "updates": UPDATES * len(found),
        "kills": {way: hit.count(way) for way in (MOMENT, STEP)},
        "kills_finished_by_the_next_run": sum(int(str(each["resumed"])) for each in found),
        "lost": lost,
        "minutes": round((time.monotonic() - started) / 60, 1),
    }
    write_result(RESULT, result)
    print(RESULT.read_text(encoding="utf-8"), end="")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
