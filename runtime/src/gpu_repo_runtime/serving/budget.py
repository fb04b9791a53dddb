"""Whose call is next, where some of those who wait may make the model fail."""

from collections.abc import Set

from .call import Standing

# Who is proven gets so many seconds of the model for one of all others, and who has broken nothing yet so many for one
# of the search for faults and of those who are kept apart.
SHARED_TO_OTHERS, OTHERS_TO_SEARCH = 2.0, 3.0


class Budget:
    """What is owed to those who wait longer because of others, in seconds of the model."""

    def __init__(self) -> None:
        self._to_shared = self._by_search = self._last_shared = 0.0

    def due(self, waiting: Set[Standing], *, mostly_searched: bool) -> Standing:
        """Return who is next of those that wait; ``mostly_searched``: in most of what waits a fault is searched for."""
        if Standing.SHARED in waiting and self._to_shared > 0:
            return Standing.SHARED
        if Standing.ALONE in waiting and (len(waiting) == 1 or mostly_searched or self._by_search <= 0):
            return Standing.ALONE
        return Standing.UNPROVEN if Standing.UNPROVEN in waiting else Standing.SHARED

    def patience(self, waiting: Set[Standing]) -> float:
        """Return how long others wait for the proven ones to come back, who have had their answers just now."""
        return 0.0 if Standing.SHARED in waiting else min(self._to_shared, self._last_shared)

    def forgive(self) -> None:
        """The proven ones have not come back."""
        self._to_shared = 0.0

    def pay(self, standing: Standing, seconds: float, waiting: Set[Standing], *, few: bool) -> None:
        """Take in how long a call took, and who waits after it.

        ``few``: all of its standing were in it, and more wait than fit into one. Few proven ones beside many others
        have every second call, not most of the time.
        """
        if standing is Standing.SHARED:
            self._to_shared = 0.0 if few else max(0.0, self._to_shared - seconds)
            self._last_shared = seconds
        elif Standing.SHARED in waiting:
            self._to_shared += SHARED_TO_OTHERS * seconds
        if standing is not Standing.ALONE:
            self._by_search = max(0.0, self._by_search - seconds)
        elif waiting - {Standing.ALONE}:
            self._by_search += OTHERS_TO_SEARCH * seconds


class Budgets(Budget):
    """The same where an address has batches of its own: with the searches it is one to the others.

    What is searched for is for the most part its own, and what it sends else is to it what all others are to them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._among_failing = Budget()

    def due(self, waiting: Set[Standing], *, mostly_searched: bool) -> Standing:
        """Return who is next."""
        if Standing.FAILING not in waiting:
            return super().due(waiting, mostly_searched=mostly_searched)
        due = super().due(_to_others(waiting), mostly_searched=mostly_searched)
        if due is Standing.ALONE:
            due = self._among_failing.due(_to_each_other(waiting), mostly_searched=mostly_searched)
            return Standing.FAILING if due is Standing.UNPROVEN else due
        return due

    def pay(self, standing: Standing, seconds: float, waiting: Set[Standing], *, few: bool) -> None:
        """Take in how long a call took."""
        apart = standing >= Standing.FAILING
        super().pay(Standing.ALONE if apart else standing, seconds, _to_others(waiting), few=few)
        if apart:
            standing = Standing.UNPROVEN if standing is Standing.FAILING else standing
            self._among_failing.pay(standing, seconds, _to_each_other(waiting), few=False)


def _to_others(waiting: Set[Standing]) -> Set[Standing]:
    return {Standing.ALONE if standing is Standing.FAILING else standing for standing in waiting}


def _to_each_other(waiting: Set[Standing]) -> Set[Standing]:
    apart = {standing for standing in waiting if standing >= Standing.FAILING}
    return {Standing.UNPROVEN if standing is Standing.FAILING else standing for standing in apart}
