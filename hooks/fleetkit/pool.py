"""Work in processes that outlives a worker which is killed, and a child that never ends."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import FrameType

from fleetkit.children import Child
from fleetkit.state import Record

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
