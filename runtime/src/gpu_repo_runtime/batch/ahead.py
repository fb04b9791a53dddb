"""Reading ahead in a thread, so that files are read and parsed while the model computes."""

import queue
import threading
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

Item = TypeVar("Item")
STALLED_SECONDS = 2.0


def ahead(
    items: Iterable[Item], depth: int, is_large: Callable[[Item], bool] = lambda item: False
) -> Generator[Item, None, None]:
    """Yield the items, up to `depth` of them made in advance by a thread; an error of theirs is raised here.

    is_large: of such an item, the next one is not begun before it is taken.
    Close it, for example with contextlib.closing, when not all of the items are taken.
    """
    made: queue.Queue[tuple[bool, Item | BaseException | None]] = queue.Queue(depth)
    closed = threading.Event()

    def put(last: bool, item: Item | BaseException | None) -> bool:
        while not closed.is_set():
            try:
                made.put((last, item), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def make() -> None:
        try:
            for item in items:
                alone = is_large(item)
                if not put(False, item):
                    return
                del item
                while alone and not made.empty() and not closed.wait(0.01):
                    continue
            put(True, None)
        except BaseException as error:
            put(True, error)

    thread = threading.Thread(target=make, name="reader", daemon=True)
    thread.start()
    try:
        while True:
            last, item = made.get()
            if not last:
                yield item  # type: ignore[misc]
                # Not held until the next one comes.
                item = None
            elif isinstance(item, BaseException):
                raise item
            else:
                return
    finally:
        closed.set()
        # A read that stalls, of a disk over the network, would keep what is to end.
        thread.join(STALLED_SECONDS)
