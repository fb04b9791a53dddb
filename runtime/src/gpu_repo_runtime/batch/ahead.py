"""Reading ahead in a thread, so that files are read and parsed while the model computes."""

import queue
import threading
from collections.abc import Generator, Iterable
from typing import TypeVar

Item = TypeVar("Item")
STALLED_SECONDS = 2.0


def ahead(items: Iterable[Item]) -> Generator[Item, None, None]:
    """Yield the items; a thread makes the next one as soon as one is taken. An error of theirs is raised here.

    Close it, for example with contextlib.closing, when not all of the items are taken.
    """
    made: queue.SimpleQueue[list[Item] | BaseException] = queue.SimpleQueue()
    taken, closed = threading.Semaphore(0), threading.Event()

    def make() -> None:
        try:
            for item in items:
                made.put([item])
                del item
                taken.acquire()
                if closed.is_set():
                    return
            made.put([])
        except BaseException as error:
            made.put(error)

    thread = threading.Thread(target=make, name="reader", daemon=True)
    thread.start()
    try:
        while found := made.get():
            if isinstance(found, BaseException):
                raise found
            taken.release()
            # Not held until the next one comes.
            yield found.pop()
    finally:
        closed.set()
        taken.release()
        # A read that stalls, of a disk over the network, would keep what is to end.
        thread.join(STALLED_SECONDS)
