"""Who has been answered often enough to share batches while others send what makes the model fail."""

from collections.abc import Hashable

from .call import Batch, address_of

# So many inputs of a connection, or of a client known by a header, have to be answered in a row; of an address, from
# which many clients may come, so many times as many.
PROVEN_BY, TIMES_FOR_AN_ADDRESS = 8, 32
# How far the first grows where the proven ones fail.
MOST_NEEDED = 1024
# So many sources are remembered at least, those that were answered last.
REMEMBERED = 2048


class Trust:
    """Counts, for each source, what was answered since it failed; ``needed`` is what a connection has to have."""

    def __init__(self) -> None:
        self.needed = PROVEN_BY
        self._now: dict[Hashable, int] = {}
        self._before: dict[Hashable, int] = {}

    def proven(self, client: Hashable) -> bool:
        """Whether a client, or the address that it comes from, is known to send what can be answered."""
        if client is not None and self._count(client) >= self.needed:
            return True
        return self._count(address_of(client)) >= TIMES_FOR_AN_ADDRESS * self.needed

    def answered(self, batch: Batch) -> None:
        """Take in that all of a batch were answered."""
        now, before = self._now, self._before
        for call, _ in batch:
            client = call.client
            now[client] = (now.get(client) or before.get(client, 0)) + 1
            if isinstance(client, tuple):
                now[client[0]] = (now.get(client[0]) or before.get(client[0], 0)) + 1
        if len(now) > REMEMBERED:
            self._before, self._now = now, {}

    def failed(self, client: Hashable) -> None:
        """Take in that the model failed on an input of a client."""
        for source in (client, address_of(client)):
            self._now[source] = 0
            self._before.pop(source, None)

    def doubt(self, client: Hashable) -> None:
        """Take in that a client is failing while others do: if it was proven, to have been answered says little."""
        if client is not None and self._count(client) >= self.needed:
            self.needed = min(MOST_NEEDED, 2 * self.needed)

    def demand_as_ever(self) -> None:
        """Take in that nothing fails any more."""
        self.needed = PROVEN_BY

    def _count(self, source: Hashable) -> int:
        return self._now.get(source) or self._before.get(source, 0)
