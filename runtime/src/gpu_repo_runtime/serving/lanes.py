"""Who is next: the queue, in lanes of calls that may share a batch, fair between clients.

Deficit round robin: each client in turn may put a few items into the next batches, and then stands at the end. So one
with hundreds of items waiting delays the others by a turn, and not by all that it has. Who sends no identity is one
client for each request.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from operator import attrgetter

from .call import Batch, Call, Standing, address_of

# A turn is no smaller than this part of the largest batch, however many clients have many items waiting.
MAX_TURNS_PER_BATCH = 8
# Lanes without a call in them that are kept.
EMPTY_LANES_KEPT = 8
Turn = tuple["Flow", int, int, list[tuple[Call, int]]]


@dataclass(slots=True, eq=False)
class Flow:
    """The calls of one client in one lane; ``stamp`` grows with every turn."""

    key: Hashable
    credit: int
    stamp: int
    calls: dict[Call, None]
    deep: bool  # more than one item was waiting


@dataclass(slots=True, eq=False)
class Lane:
    """Calls that may share a batch, by client, in the order of their turns; what is in ``planned`` goes first."""

    key: Hashable
    standing: Standing
    flows: "OrderedDict[Hashable, Flow]" = field(default_factory=OrderedDict)
    deep: int = 0  # clients with more than one item waiting
    planned: Batch = field(default_factory=list)  # the next item last
    sizes: list[int] = field(default_factory=list)  # of the planned batches, the next one last
    planned_at: int = 0

    def __bool__(self) -> bool:
        return bool(self.flows or self.planned)

    @property
    def stamp(self) -> int:
        """When the item that goes first took its place."""
        return self.planned_at if self.planned else next(iter(self.flows.values())).stamp

    @property
    def one(self) -> Call:
        """One of its calls."""
        return self.planned[-1][0] if self.planned else next(iter(next(iter(self.flows.values())).calls))

    def next_size(self, limit: int) -> int:
        """Take the next batch's size from the plan, at most ``limit``, which may have become less meanwhile."""
        if not self.sizes:
            return limit
        size = min(limit, self.sizes[-1])
        self.sizes[-1] -= size
        if not self.sizes[-1]:
            self.sizes.pop()
        return size

    def drop(self, call: Call) -> None:
        """Take a call out of the plan; the others keep their batches, or short texts would be padded to long ones."""
        if not any(other is call for other, _ in self.planned):
            return
        planned, sizes, end = [], [], 0
        for size in self.sizes or [len(self.planned)]:
            kept = [entry for entry in self.planned[end : end + size] if entry[0] is not call]
            planned += kept
            end += size
            if kept and self.sizes:
                sizes.append(len(kept))
        self.planned, self.sizes = planned, sizes


class Lanes:
    """All that waits."""

    def __init__(self) -> None:
        self._lanes: dict[Hashable, Lane] = {}
        self._clock = 0
        self.limit = 1

    def __bool__(self) -> bool:
        return any(self._lanes.values())

    @property
    def waiting(self) -> set[Standing]:
        """The standings of those who wait."""
        return {lane.standing for lane in self._lanes.values() if lane}

    def add(self, call: Call) -> None:
        """Put a call at the end of its client's line; the client stands at the end if it had nothing waiting."""
        lane, key = self._lane_of(call), _flow_of(call)
        if flow := lane.flows.get(key):
            flow.calls[call] = None
            lane.deep += not flow.deep
            flow.deep = True
            return
        self._clock += 1
        deep = len(call.sizes) > 1
        lane.deep += deep
        lane.flows[key] = Flow(key, self._turn_of(lane), self._clock, {call: None}, deep)

    def remove(self, call: Call) -> None:
        """Forget a call."""
        lane = self._lanes.get(call.lane)
        if lane is None:
            return
        key = _flow_of(call)
        if flow := lane.flows.get(key):
            flow.calls.pop(call, None)
            if not flow.calls:
                del lane.flows[key]
                lane.deep -= flow.deep
        lane.drop(call)
        self.forget(lane)

    def put_back(self, batch: Batch) -> None:
        """Put items that were taken to the head of their lane."""
        lane = self._lane_of(batch[0][0])
        lane.planned_at = lane.stamp if lane else self._clock
        lane.planned, lane.sizes = lane.planned + batch[::-1], []

    def first(self, standing: Standing) -> Lane:
        """Return the lane of whoever of such a standing has waited longest for a turn; there has to be one."""
        lanes = [lane for lane in self._lanes.values() if lane and lane.standing is standing]
        return min(lanes, key=attrgetter("stamp")) if len(lanes) > 1 else lanes[0]

    def forget(self, lane: Lane) -> None:
        """Drop a lane in which nothing waits; a few are kept, since making them takes time."""
        if len(self._lanes) > EMPTY_LANES_KEPT and not lane.flows and not lane.planned:
            self._lanes.pop(lane.key, None)

    def take(self, lane: Lane, count: int, turns: list[Turn] | None = None) -> Batch:
        """Take up to ``count`` items, fairly; ``turns`` gets what ``undo`` needs."""
        batch: Batch = []
        while lane.flows and len(batch) < count:
            self._turn(lane, batch, count, turns)
            if lane.standing is Standing.ALONE:
                break
        return batch

    def take_rounds(self, lane: Lane, enough: int, most: int, turns: list[Turn]) -> Batch:
        """Take whole rounds until there is ``enough``, so that all who wait have had their turn."""
        batch: Batch = []
        while lane.flows and len(batch) < min(enough, most):
            end = self._clock
            while lane.flows and len(batch) < most and next(iter(lane.flows.values())).stamp <= end:
                self._turn(lane, batch, most, turns)
        return batch

    def undo(self, lane: Lane, turns: list[Turn]) -> None:
        """Put everything back as it was."""
        for flow, credit, stamp, calls in reversed(turns):
            flow.credit, flow.stamp = credit, stamp
            for call, place in reversed(calls):
                call.next = place
                flow.calls = {call: None} | flow.calls
            lane.deep += flow.deep and flow.key not in lane.flows
            lane.flows[flow.key] = flow
            lane.flows.move_to_end(flow.key, last=False)

    def _turn(self, lane: Lane, batch: Batch, count: int, turns: list[Turn] | None) -> None:
        key, flow = next(iter(lane.flows.items()))
        if len(flow.calls) == 1 and turns is None:  # most have one item: this takes half the time of what follows
            [call] = flow.calls
            if call.next + 1 == len(call.sizes):
                batch.append((call, call.next))
                call.next += 1
                del lane.flows[key]
                lane.deep -= flow.deep
                return
        room = count - len(batch)
        before: list[tuple[Call, int]] = []
        if lane.standing is not Standing.ALONE and flow.credit < room:
            room = flow.credit
        if turns is not None:
            turns.append((flow, flow.credit, flow.stamp, before))
        for call in list(flow.calls)[:room]:
            start = call.next
            before.append((call, start))
            call.next = end = min(len(call.sizes), start + room)
            batch += [(call, index) for index in range(start, end)]
            room, flow.credit = room - (end - start), flow.credit - (end - start)
            if end == len(call.sizes):
                del flow.calls[call]
            if lane.standing is Standing.ALONE or not room:
                break
        if not flow.calls:
            del lane.flows[key]
            lane.deep -= flow.deep
        elif flow.credit <= 0:
            self._clock += 1
            flow.credit, flow.stamp = self._turn_of(lane), self._clock
            lane.flows.move_to_end(key)

    def _turn_of(self, lane: Lane) -> int:
        """How many items a turn has: those who have many waiting share half of a batch, where they are few."""
        return max(1, self.limit // MAX_TURNS_PER_BATCH, self.limit // (2 * lane.deep or 2))

    def _lane_of(self, call: Call) -> Lane:
        lane = self._lanes.get(call.lane)
        if lane is None:
            lane = self._lanes[call.lane] = Lane(call.lane, call.standing)
        return lane


def _flow_of(call: Call) -> Hashable:
    """Return whose turn a call counts for; connections of which nothing is known are no more than their address."""
    if call.client is None:
        return call
    return address_of(call.client) if call.standing is Standing.UNPROVEN else call.client
