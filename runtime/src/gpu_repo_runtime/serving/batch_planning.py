"""Which of the waiting inputs share a batch: the cost of a call, the batches with the least cost, and what fits.

A model computes every input of a batch as long as the longest one; the difference is padding.
"""

from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate

# Batches that are planned together at most. All of them run before any newer input, so that no long one is left behind.
PLANNED_BATCHES = 8
# Inputs keep the order of arrival unless another order takes at most this share of the time, and saves more seconds
# than the planning takes.
MAX_COST_RATIO, MIN_SAVING_S = 0.8, 0.005
# How much the last call counts in the average of calls of its size.
SMOOTHING = 0.2
# A call smaller than any so far is expected to take at least this share of the smallest one.
MIN_SHARE_OF_SMALLEST = 1 / 16
# Full batches that have to fit before a larger one is tried. A size that failed needs twice as many each time.
GOOD, MOST_GOOD = 20, 5000


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
    """The largest batch: ``most`` inputs, fewer after memory ran out, then more again step by step.

    Memory follows the padded size of a batch: its inputs times the size of the largest one. ``shortages`` counts how
    often memory ran out.
    """

    def __init__(self, most: int) -> None:
        self.most, self.shortages = most, 0
        self._room: int | None = None  # the largest padded size that fits; None: nothing ran out
        self._step, self._failed = 1, 0  # the largest input, and the padded size, for which memory ran out last
        self._patience, self._good = GOOD, 0

    @property
    def now(self) -> int:
        """The most inputs that a batch gets now, if they are as large as those for which memory ran out."""
        return self.most if self._room is None else max(1, min(self.most, self._room // self._step))

    def first_part(self, sizes: list[int]) -> int:
        """Return how many of the smallest inputs fit together, at least one."""
        return len(sizes) if self._room is None else fitting(sorted(sizes), self._room)

    def fitted(self, count: int, largest: int) -> None:
        """Record a batch that was answered: after enough full ones, a larger one is tried."""
        if count * largest >= self._failed:
            self._failed, self._patience = 0, GOOD
        if self._room is None or (count + 1) * largest <= self._room:
            return
        self._good += 1
        if self._room >= self.most * self._step:
            self._room = None
        elif self._good >= (self._patience if self._room + self._step >= self._failed > 0 else GOOD):
            self._good, self._room = 0, self._room + self._step

    def short(self, count: int, largest: int, answered: int) -> None:
        """Record that memory ran out for ``count`` inputs; ``answered`` is the padded size of a part that fitted."""
        self.shortages += 1
        before, size = self._room, count * largest
        self._patience = min(MOST_GOOD, 2 * self._patience)
        self._good, self._failed, self._step = 0, size, largest
        # One input more than what fitted was tried, or all at once.
        self._room = max(largest, answered, size - largest if before else 0)


def fitting(sizes: list[int], room: int) -> int:
    """Return how many of the inputs, the smallest first, have at most this padded size together; at least one."""
    return max((count for count, size in enumerate(sizes, 1) if count * size <= room), default=1)
