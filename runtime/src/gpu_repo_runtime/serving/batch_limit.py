"""The largest batch: smaller when memory runs out, then larger again step by step."""

from .call import Batch, size_of

# Full batches that have to fit before a larger one is tried. A size that failed needs twice as many each time.
GOOD, MOST_GOOD = 20, 5000
# An input is much larger than the others if it is more than this many times the next one.
UNEVEN = 2


class BatchLimit:
    """``now`` is the largest batch, ``most`` what it grows back to, ``shortages`` how often memory ran out."""

    def __init__(self, most: int) -> None:
        self.now = self.most = most
        self.shortages = 0
        self._failed: int | None = None  # the smallest batch that did not fit
        self._padded: int | None = None  # the most that fits of items times the largest of them
        self._most_at_once = 0, 0  # the largest batch so far that was answered: items, padded
        self._patience, self._good = GOOD, 0

    def pieces(self, batch: Batch) -> list[Batch]:
        """Cut a batch into batches that fit as far as is known."""
        if self._padded is None:
            if len(batch) <= self.now:
                return [batch]
            return [batch[start : start + self.now] for start in range(0, len(batch), self.now)]
        pieces: list[Batch] = [[]]
        for entry in by_size(batch):
            count = len(pieces[-1]) + 1
            if count > 1 and (count > self.now or count * size_of(entry) > self._padded):
                pieces.append([])
            pieces[-1].append(entry)
        return pieces

    def fitted(self, count: int, largest: int) -> None:
        """Record that so many inputs were answered together; ``largest`` is the size of the largest one."""
        if count >= self._most_at_once[0]:
            self._most_at_once = count, count * largest
        if self._padded is None and self.now == self.most:
            return
        if self._failed is not None and count >= self._failed:
            self._failed = None
        if count < self.now and (self._padded is None or count == 1 or 2 * count * largest < self._padded):
            return
        self._good += 1
        known_to_fail = self._padded is not None or (self._failed is not None and self.now + 1 >= self._failed)
        if self._good < (self._patience if known_to_fail else GOOD):
            return
        self._good, self._padded = 0, None
        self.now = min(self.most, self.now + 1)

    def short(self, batch: Batch, answered: Batch) -> None:
        """Record that memory ran out for a batch of which no input is too large alone; ``answered`` of it fitted."""
        self.shortages += 1
        size, known = len(batch), self._failed
        self._patience = min(MOST_GOOD, 2 * self._patience)
        self._good, self._failed = 0, size
        count, smaller = self._most_at_once
        if is_uneven(batch) or (count >= size and smaller < padded(batch)):
            self._padded = max(padded(answered), padded(by_size(batch)[-1:]))
        elif known is not None and size == self.now:
            self.now = max(1, size - 1)
        else:
            self.now = max(1, min(self.now, len(answered)))


def by_size(batch: Batch) -> Batch:
    """Return a batch with the smallest input first."""
    return sorted(batch, key=size_of)


def is_uneven(batch: Batch) -> bool:
    """Return whether an input is much larger than all others."""
    *_, second, largest = [0, 0, *sorted(map(size_of, batch))]
    return largest > UNEVEN * second


def padded(batch: Batch) -> int:
    """Return what the model computes if all inputs are as large as the largest one."""
    return len(batch) * max(1, *map(size_of, batch)) if batch else 0
