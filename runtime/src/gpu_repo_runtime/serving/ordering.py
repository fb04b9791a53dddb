"""Which of the waiting texts share a batch.

A model computes every text of a batch as long as the longest one; what is more than the text itself is padding.
"""

from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate, islice

from .call import Batch, Standing
from .lanes import Lane, Lanes, Turn

# How many batches are planned together at most. All of them go before any newer text, so that no text waits for more
# than these, however many short ones arrive.
PLANNED_BATCHES = 8
# How many where only clients wait who have more texts than one turn takes.
PLANNED_BULK_BATCHES = 4
# Texts go in the order of arrival unless another one takes at most this share of its time and saves more seconds than
# the planning takes.
MAX_COST_RATIO, MIN_SAVING_S = 0.8, 0.005
# How much the last call counts in what is known of calls of its size.
SMOOTHING = 0.2
# A call smaller than any so far is taken for at least this share of the smallest one, so that small ones are tried.
MIN_SHARE_OF_SMALLEST = 1 / 16


class Cost:
    """What a call of the model takes, in seconds.

    By the characters in it, texts times the longest of them: the average of the calls so far, by powers of two. On a
    CPU half the characters take half the time; on a GPU they may take as long. And no less than the fastest call of
    about as many texts, since there are models to which lengths do not matter.
    """

    def __init__(self) -> None:
        self._averages: dict[int, tuple[float, float]] = {}
        self._line: list[tuple[float, float]] = []
        self._least: dict[int, float] = {}

    def learn(self, texts: int, longest: int, seconds: float) -> None:
        """Take in how long a call took; ``longest`` is in characters."""
        characters = max(1, texts * longest)
        power = characters.bit_length()
        x, y = self._averages.get(power, (characters, seconds))
        self._averages[power] = x + SMOOTHING * (characters - x), y + SMOOTHING * (seconds - y)
        points = sorted(self._averages.values())
        # More characters take no less time.
        highest = accumulate((y for _, y in points), max)
        self._line = [(x, y) for (x, _), y in zip(points, highest, strict=True)]
        power = texts.bit_length()
        self._least[power] = min(seconds, self._least.get(power, seconds))

    @property
    def highest(self) -> float:
        """The seconds of the longest calls so far, on average."""
        return self._line[-1][1] if self._line else 0.0

    def of(self, texts: int, longest: int) -> float:
        """Return the seconds of a call, 0 when none is known."""
        return max(self.least(texts), self.by_characters(texts * longest))

    def least(self, texts: int) -> float:
        """Return the seconds that so many texts take at least."""
        power = texts.bit_length()
        return max((seconds for known, seconds in self._least.items() if known <= power), default=0.0)

    def by_characters(self, characters: int) -> float:
        """Return what the line between the averages says, beyond them in proportion."""
        if not self._line:
            return 0.0
        at = bisect(self._line, (characters, float("inf")))
        x, y = self._line[max(0, at - 1)]
        if at == 0:
            return y * max(characters / x, MIN_SHARE_OF_SMALLEST)
        if at == len(self._line):
            return y * characters / x
        x_after, y_after = self._line[at]
        return y + (y_after - y) * (characters - x) / (x_after - x)


class Ordering:
    """Chooses the items of the next batch; learns from the batches what that takes."""

    def __init__(self) -> None:
        self.cost = Cost()

    def learn(self, batch: Batch, seconds: float) -> None:
        """Take in how long a batch took."""
        self.cost.learn(len(batch), max(call.sizes[index] for call, index in batch), seconds)

    def next_batch(self, lanes: Lanes, lane: Lane, limit: int) -> Batch:
        """Take the next batch from a lane, at most ``limit`` items."""
        lanes.limit = limit
        alone = lane.standing is Standing.ALONE
        if not (lane.sizes or alone):
            self._plan(lanes, lane, limit)
        size = lane.next_size(limit)
        batch: Batch = []
        while lane.planned and len(batch) < size and not (alone and batch and lane.planned[-1][0] is not batch[0][0]):
            batch.append(lane.planned.pop())
        if len(batch) < size and not lane.planned and not (alone and batch):
            batch += lanes.take(lane, size - len(batch))
        lanes.forget(lane)
        return batch

    def _plan(self, lanes: Lanes, lane: Lane, limit: int) -> None:
        """Put the head of a lane in the order that takes the least time, where one is worth it."""
        if self.cost.highest * PLANNED_BATCHES <= MIN_SAVING_S:
            return
        returned = lane.planned[::-1]  # of a batch that failed: they go first
        flows = islice(lane.flows.values(), PLANNED_BATCHES * limit)
        lengths = [call.sizes[index] for call, index in returned]
        lengths += [size for flow in flows for call in flow.calls for size in call.sizes]
        # About as long as each other: there is nothing to gain.
        if sum(lengths) > MAX_COST_RATIO * len(lengths) * max(lengths, default=0):
            return
        turns: list[Turn] = []
        stamp = lane.stamp
        head = returned + self._rounds(lanes, lane, limit, len(returned), turns)
        whole = len(head) - len(head) % limit
        if limit <= whole < len(head) and whole >= len(returned):  # what is left over may fill a batch later
            lanes.undo(lane, turns)
            turns.clear()
            head = returned + lanes.take(lane, whole - len(returned), turns)
        order, sizes = plan([call.sizes[index] for call, index in head], limit, self.cost)
        if not sizes:
            return lanes.undo(lane, turns)
        lane.planned, lane.sizes, lane.planned_at = [head[i] for i in reversed(order)], sizes, stamp

    def _rounds(self, lanes: Lanes, lane: Lane, limit: int, returned: int, turns: list[Turn]) -> Batch:
        """Take who is planned together, beside so many that were returned."""
        head = lanes.take_rounds(lane, limit - returned, PLANNED_BATCHES * limit - returned, turns)
        if turns and all(flow.calls for flow, *_ in turns):  # nobody small is waiting, who would gain from a short plan
            room = PLANNED_BULK_BATCHES * limit - returned - len(head)
            head += lanes.take_rounds(lane, room, room, turns)
        return head


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
