"""Calls, and which of their inputs share a batch: the cost of a batch, the plan with the least cost, and what fits.

A model computes every input of a batch as long as the longest one; the difference is padding.
"""

from bisect import bisect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Any

# Batches that are planned together at most. All of them run before any newer input, so that no long one is left behind.
PLANNED_BATCHES = 8
# Inputs keep the order of arrival unless another order takes at most this share of the time, and saves more seconds
# than the planning takes.
MAX_COST_RATIO, MIN_SAVING_S = 0.8, 0.005
# How much the last call counts in the average of calls of its size.
SMOOTHING = 0.2
# A call smaller than any so far is expected to take at least this share of the smallest one.
MIN_SHARE_OF_SMALLEST = 1 / 16
# Full batches that have to fit before a larger one is tried; twice as many after each shortage.
GOOD, MOST_GOOD = 10, 5000


@dataclass(slots=True, eq=False)
class Call:
    """The inputs of one request and their answers; times in seconds of ``time.perf_counter``.

    ``predict`` answers a list of inputs; inputs of different ``group`` never share a batch. ``sizes`` has a number for
    each input, by which batches are planned. ``client`` is the address, or the value of CLIENT_HEADER, that is
    quarantined if an input fails.
    """

    items: Sequence[Any]
    predict: Callable[[list[Any]], Sequence[Any]]
    sizes: Sequence[int]
    group: Hashable
    client: Hashable
    done: Any  # a future
    queued_at: float
    answers: list[Any]
    left: int  # inputs that are not answered
    next: int = 0  # the first input that is in no batch yet
    gone: bool = False  # the client has gone, or its time is over
    started_at: float = 0.0  # when the model was first called with some of them
    batch_size: int = 0
    receive: Any = None  # of ASGI: says that the client has gone
    watcher: Any = None  # the task that waits for that


Batch = list[tuple[Call, int]]


def sizes_of(batch: Batch) -> list[int]:
    """Return the size of each input of a batch."""
    return [call.sizes[index] for call, index in batch]


class Cost:
    """The time of a call of the model, in seconds.

    By the characters in it, texts times the longest of them: the average of the calls so far, by powers of two. On a
    CPU half the characters take half the time; on a GPU they may take as long. And no less than the fastest call of
    about as many texts, since there are models to which lengths do not matter.
    """

    def __init__(self) -> None:
        self._averages: dict[int, tuple[float, float]] = {}
        self._line: list[tuple[float, float]] = []  # empty after a call was learned
        self._least: dict[int, float] = {}

    def learn(self, texts: int, longest: int, seconds: float) -> None:
        """Record how long a call took; ``longest`` is in characters."""
        characters = max(1, texts * longest)
        power = characters.bit_length()
        x, y = self._averages.get(power, (characters, seconds))
        self._averages[power] = x + SMOOTHING * (characters - x), y + SMOOTHING * (seconds - y)
        self._line = []
        power = texts.bit_length()
        self._least[power] = min(seconds, self._least.get(power, seconds))

    @property
    def highest(self) -> float:
        """The seconds of the longest calls so far, on average."""
        return max((seconds for _, seconds in self._averages.values()), default=0.0)

    def of(self, texts: int, longest: int) -> float:
        """Return the seconds of a call, 0 when none is known."""
        return max(self.least(texts), self.by_characters(texts * longest))

    def least(self, texts: int) -> float:
        """Return the seconds that so many texts take at least."""
        power = texts.bit_length()
        return max((seconds for known, seconds in self._least.items() if known <= power), default=0.0)

    def by_characters(self, characters: int) -> float:
        """Return what the line between the averages says, beyond them in proportion."""
        if not self._averages:
            return 0.0
        if not self._line:
            points = sorted(self._averages.values())
            # More characters take no less time.
            highest = accumulate((y for _, y in points), max)
            self._line = [(x, y) for (x, _), y in zip(points, highest, strict=True)]
        at = bisect(self._line, (characters, float("inf")))
        x, y = self._line[max(0, at - 1)]
        if at == 0:
            return y * max(characters / x, MIN_SHARE_OF_SMALLEST)
        if at == len(self._line):
            return y * characters / x
        x_after, y_after = self._line[at]
        return y + (y_after - y) * (characters - x) / (x_after - x)


def is_uneven(sizes: list[int]) -> bool:
    """Return whether inputs differ so much that another order may save time."""
    return sum(sizes) <= MAX_COST_RATIO * len(sizes) * max(sizes, default=0)


def plan(lengths: list[int], limit: int, cost: Cost) -> tuple[Sequence[int], list[int]]:
    """Return an order, as positions, and the sizes of its batches from the last to the first; none: as they come.

    lengths: the characters of each text, in the order of arrival.
    """
    batches = [lengths[start : start + limit] for start in range(0, len(lengths), limit)]
    as_they_come = sum(cost.of(len(batch), max(batch)) for batch in batches)
    enough = min(MAX_COST_RATIO * as_they_come, as_they_come - MIN_SAVING_S)
    # No order does better than without padding.
    padded = sum(len(batch) * max(batch) for batch in batches)
    if sum(lengths) <= MAX_COST_RATIO * padded and sum(cost.by_characters(sum(batch)) for batch in batches) <= enough:
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        seconds, sizes = _cut([lengths[i] for i in order], limit, cost)
        if seconds <= enough:
            return order, sizes
    return range(len(lengths)), []


def _cut(lengths: list[int], limit: int, cost: Cost) -> tuple[float, list[int]]:
    """Return the least seconds for texts sorted by length, and the sizes of the batches, the last one first."""
    # Powers of two are close enough to the best, and few.
    allowed = {size: cost.least(size) for size in (limit, *(1 << power for power in range(limit.bit_length())))}
    best: list[tuple[float, int]] = [(0.0, 0)]
    for end, longest in enumerate(lengths, 1):
        ways = (
            (best[end - size][0] + max(least, cost.by_characters(size * longest)), -size)
            for size, least in allowed.items()
            if size <= end
        )
        seconds, size = min(ways)
        best.append((seconds, -size))
    sizes, end = [], len(lengths)
    while end:
        sizes.append(best[end][1])
        end -= sizes[-1]
    return best[-1][0], sizes


class BatchLimit:
    """The largest batch: ``most`` inputs, and after memory ran out a padded size, which then grows step by step.

    Memory follows the padded size of a batch: its inputs times the size of the largest one.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._room = inf  # the largest padded size that fits
        self._step, self._good, self._patience = 1, 0, GOOD  # the largest input for which memory ran out last

    @property
    def now(self) -> int:
        """The most inputs that a batch gets now, if they are as large as those for which memory ran out."""
        return max(1, int(min(self.most, self._room // self._step)))

    def first_part(self, sizes: list[int]) -> int:
        """Return how many of the smallest inputs fit together, at least one."""
        return len(sizes) if self._room == inf else fitting(sorted(sizes), self._room)

    def answered(self, count: int, largest: int) -> None:
        """Record a batch that was answered: after enough full ones, a larger one is tried."""
        if (count + 1) * largest > self._room:
            self._good += 1
            if self._good >= self._patience:
                self._good, self._room = 0, self._room + self._step

    def short(self, count: int, largest: int, answered: int) -> None:
        """Record that memory ran out for ``count`` inputs; ``answered`` is the padded size of a part that fitted."""
        # One input more than what fitted was tried, or all at once.
        before = 0 if self._room == inf else (count - 1) * largest
        self._good, self._patience = 0, min(MOST_GOOD, 2 * self._patience)
        self._step, self._room = largest, max(largest, answered, before)


def fitting(sizes: list[int], room: float) -> int:
    """Return how many of the inputs, the smallest first, have at most this padded size together; at least one."""
    return max((count for count, size in enumerate(sizes, 1) if count * size <= room), default=1)
