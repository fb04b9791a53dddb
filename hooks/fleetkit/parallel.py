"""Work on many children at once, each apart from the others."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from gpu_repo_runtime.update.git import UpdateError, clean

from fleetkit.fleet_file import Child
from fleetkit.rows import Row

Work = Callable[..., Row]


def guarded(work: Work, child: Child, *more: object) -> Row:
    """Return the line of a child, also where it cannot be reached or updated."""
    try:
        row = work(child, *more)
    except UpdateError as error:
        row = Row(child.name, "error", reason=str(error))
    except Exception as error:  # of a host's client, or a fault of this tool: the others go on
        row = Row(child.name, "error", reason=clean(f"{type(error).__name__}: {error}")[:300])
    row.canary = child.canary
    return row


def asked(future: Future[Row]) -> Row | None:
    """Return what a process found, None where it ended."""
    try:
        return future.result()
    except BrokenProcessPool:
        return None


def processes(jobs: int) -> Executor:
    """Return a pool of processes, or of threads where there is no /dev/shm, which the locks of processes need."""
    try:
        return ProcessPoolExecutor(jobs)
    except OSError:
        return ThreadPoolExecutor(jobs)


def each(work: Work, children: Sequence[Child], *more: object, jobs: int, rendering: bool = False) -> list[Row]:
    """Do the work for every child: in threads, or in processes where Copier renders, which takes a CPU."""
    with processes(jobs) if rendering else ThreadPoolExecutor(4 * jobs) as pool:
        futures = [pool.submit(guarded, work, child, *more) for child in children]
        rows = [asked(future) for future in futures]
    for at, row in enumerate(rows):
        if row is None:  # one child took its process along, and the pool with it: those left get one each
            with ProcessPoolExecutor(1) as single:
                again = asked(single.submit(guarded, work, children[at], *more))
            rows[at] = again or Row(children[at].name, "error", reason="its update ended the process: out of memory?")
    return [row for row in rows if row]
