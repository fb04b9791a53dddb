"""From which addresses inputs come that make the model fail, and how many of theirs do."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

# So many addresses are remembered.
MAX_REMEMBERED = 1024
# How much the last input counts in the share of an address. Where it is known for a few inputs only, their mean tells
# whom to keep apart, but not how small batches have to be: who fails may be told late, and has no second one waiting.
SMOOTHING = 1 / 64
# An address has its own batches from the time when more than this share of its inputs fails until less than the other.
FAILING_ABOVE, FINE_BELOW = 0.25, 0.0625


@dataclass(frozen=True, slots=True)
class Origin:
    """How many inputs of an address there were since the first one that failed, and how many of them failed.

    ``share`` counts the last ones more and begins at 0. ``failing``: others are not to share batches with them.
    """

    mean: float = 0.0
    share: float = 0.0
    count: int = 1
    failing: bool = False

    def after(self, failed: float) -> "Origin":
        """Return what it is after one more input, which has failed, 1, or not, 0."""
        gain = max(SMOOTHING, 1 / (self.count + 1))
        mean, share = self.mean + gain * (failed - self.mean), self.share + SMOOTHING * (failed - self.share)
        return Origin(mean, share, self.count + 1, mean > (FINE_BELOW if self.failing else FAILING_ABOVE))


class Origins:
    """The addresses from which an input has failed."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Origin] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._known)

    def share(self, address: Hashable) -> float:
        """Return the share of its inputs that fail."""
        return self._known.get(address, Origin()).share

    def failing(self, address: Hashable) -> bool:
        """Whether so many fail that others are not to share batches with them."""
        return self._known.get(address, Origin()).failing

    def failed(self, address: Hashable) -> None:
        """Take in that an input failed."""
        self._known[address] = self._known.pop(address, Origin()).after(1.0)
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)

    def answered(self, address: Hashable) -> None:
        """Take in that an input was answered."""
        if known := self._known.get(address):
            self._known[address] = known.after(0.0)

    def clear(self) -> None:
        """Forget all: nothing fails any more."""
        self._known.clear()
