"""Plans of children in processes of their own, which outlive a worker that is killed and a child that never ends."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from gpu_repo_runtime.update.template_versions import last_line
from tqdm import tqdm

from fleetkit.children import Child, shown
from fleetkit.isolation import GRACE_SECONDS
from fleetkit.plan import plan_child
from fleetkit.speed import compile_templates_once, read_yaml_fast, share_checkouts
from fleetkit.state import Record, State

Work = Callable[[Child], Record]


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in what is inside after so many seconds. For the main thread of a process."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"it did not end in {seconds:g} s (--child-limit)")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attempt(pool: Executor, work: Work, children: Iterable[Child]) -> Iterator[tuple[Child, Record | None]]:
    """Yield each child with its record, or None where a worker went before it was done or could start."""
    with pool:
        jobs: dict[Future[Record], Child] = {}
        for child in children:
            try:
                jobs[pool.submit(work, child)] = child
            except BrokenProcessPool:  # the first worker can go while the last children are still handed out
                yield child, None
        for job in as_completed(jobs):
            try:
                yield jobs[job], job.result()
            except BrokenProcessPool:
                yield jobs[job], None


def in_processes(
    pool: Callable[[int], Executor], jobs: int, work: Work, children: Iterable[Child], killed: Work
) -> Iterator[tuple[Child, Record]]:
    """Yield each child with its record as they are done; one that takes its worker along gets that of `killed`.

    A pool ends with its first worker and does not say whose child that was: the first of those that are left, which
    were at work, are tried again one at a time.
    """
    left = list(children)
    while left:
        unfinished = []
        for child, record in attempt(pool(jobs), work, left):
            if record is None:
                unfinished.append(child)
            else:
                yield child, record
        order = {child.name: place for place, child in enumerate(left)}
        unfinished.sort(key=lambda child: order[child.name])
        suspects, left = unfinished[: 2 * jobs + 1], unfinished[2 * jobs + 1 :]
        for suspect in suspects:
            for child, record in attempt(pool(1), work, [suspect]):
                yield child, killed(child) if record is None else record


def end_with(parent: int) -> None:
    """End this process once `parent` is gone, so that a killed run leaves no worker behind."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def start_worker(folder: str) -> None:
    """Give this worker a cache of its own, since Copier locks none, and let it share its checkouts of the template."""
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    own = Path(folder) / "copier" / str(os.getpid())
    os.environ["COPIER_CACHE_DIR"] = str(own / "cache")
    share_checkouts(own / "checkouts")
    read_yaml_fast()
    compile_templates_once()


class Plan:
    """The work of one child in a plan, for worker processes."""

    def __init__(self, state: State, options: argparse.Namespace) -> None:
        self.state, self.options = state, options
        self.tests = options.tests

    def __call__(self, child: Child) -> Record:
        tests = self.tests.limits.seconds + GRACE_SECONDS if self.tests.command else 0
        try:
            with time_limit(self.options.child_limit + tests):
                return plan_child(self.state, child, self.options.template, self.options.to, self.tests)
        except Exception as error:  # beside its plan, say where there is no room for its record
            return self.lost(child, f"{type(error).__name__}: {last_line(str(error))}")

    def lost(self, child: Child, why: str) -> Record:
        """Return the record of a child of which nothing was planned, and remember it where that is possible."""
        record: Record = {"name": child.name, "url": child.url, "wave": child.wave, "owner": child.owner}
        record |= {"outcome": "error", "message": why, "to": self.options.to}
        with suppress(OSError):
            self.state.write(child.name, record)
        return record

    def killed(self, child: Child) -> Record:
        """Return the record of a child that took its worker along."""
        return self.lost(child, "its worker was killed, for memory perhaps: nothing of it was planned")


def plan_each(work: Plan, chosen: list[Child], jobs: int) -> list[Record]:
    """Plan the children in processes of their own; the records come in the order of the children."""
    context = multiprocessing.get_context("fork")  # Copier is imported once, not once in each worker

    def pool(size: int) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(size, context, start_worker, (str(work.state.folder / "cache"),))

    done: dict[str, Record] = {}
    told = in_processes(pool, jobs, work, chosen, work.killed)
    for child, record in tqdm(told, total=len(chosen), desc="plan", unit="child", disable=not sys.stderr.isatty()):
        done[child.name] = shown(record)
    return [done[child.name] for child in chosen]
