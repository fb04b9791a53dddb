"""Random histories of a template and of its owner, with updates that are killed: whether a line of the owner is lost.

A kill comes at a random moment; then `git reset --hard` and `git clean -fd` restore the child and the update runs
again. Writes benchmarks/results/histories.json.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from tqdm import tqdm

from benchmarks.result_files import machine, write_result
from tests.updates.copiers import copier_at
from tests.updates.test_histories import play
from tests.updates.tiny import Child, Template

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "benchmarks" / "results" / "histories.json"
UPDATES = 2  # in one history


@dataclass
class Program:
    """scripts/update as a process."""

    environment: dict[str, str]
    out: str = ""
    err: str = ""

    def __call__(self, child: Child, *options: str) -> int:
        """Update the child and return the exit code."""
        command = [sys.executable, "-W", "ignore", str(ROOT / "hooks" / "safe_update.py")]
        done = subprocess.run(
            [*command, "--repository", str(child.path), *options],
            env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.out, self.err = done.stdout, done.stderr
        return done.returncode


def one(seed: int, kill_every: int) -> dict[str, object]:
    """Play one history; return whether its updates were killed, and the line that it lost."""
    killed = bool(kill_every) and seed % kill_every == 0
    with TemporaryDirectory(prefix="history-") as name:
        copier = copier_at(Path(name) / "home")
        template, program = Template(Path(name) / "template", copier), Program(copier.environment())
        try:
            play(seed, template, Path(name) / "child", program, kill=killed)
        except AssertionError as error:
            return {"seed": seed, "lost": str(error), "killed": killed}
        return {"seed": seed, "lost": "", "killed": killed}


def main() -> None:
    """Play the histories and write the result; lost lines are an exit code of 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=300)
    parser.add_argument("--kill-every", type=int, default=10, help="kill both updates of every n-th history; 0: none")
    parser.add_argument("--seed", type=int, default=1000, help="of the first history; each has the next one")
    parser.add_argument("--minutes", type=float, default=60, help="start no history after this time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    started = time.monotonic()
    seeds = range(options.seed, options.seed + options.histories)
    found = []
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        work = partial(one, kill_every=options.kill_every)
        for result in tqdm(pool.imap_unordered(work, seeds), total=len(seeds), disable=not sys.stderr.isatty()):
            found.append(result)
            if time.monotonic() - started > 60 * options.minutes:
                break
    lost = [str(each["lost"]) for each in found if each["lost"]]
    result = {
        "machine": machine(copier=version("copier")),
        "first_seed": options.seed,
        "histories": len(found),
        "updates": UPDATES * len(found),
        "kills": UPDATES * sum(bool(each["killed"]) for each in found),
        "lost": lost,
        "minutes": round((time.monotonic() - started) / 60, 1),
    }
    write_result(RESULT, result)
    print(RESULT.read_text(encoding="utf-8"), end="")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
