"""One worker's run: read, predict and write at the same time, part after part, until nothing is left."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial

from .ahead import ahead
from .exits import BadInput
from .ordering import Sorted
from .output import Output, Record
from .parts import Part
from .plan import Plan
from .predicting import Predictor
from .progress import Progress
from .publishing import judge
from .reading import read_parts
from .results import Outcome
from .settings import Shard
from .stop import Stop
from .unchanged import Watch

# Parts that are computed and not yet written: a process that is killed has to do them again.
WRITES_WAITING = 1
# While a part of more bytes is computed, the next one is read and no other one behind it.
LARGE = 8 << 20


class Run:
    """Does the parts of a shard that are not there yet."""

    def __init__(self, plan: Plan, output: Output, shard: Shard, predictor: Predictor, progress: Progress) -> None:
        self._plan, self._output, self._shard = plan, output, shard
        self._predictor, self._progress = predictor, progress
        self._watch = Watch()
        self._done = output.records(lambda unit, part: plan.wants(shard, unit, part))
        done = self._done.values()
        self.found = len(done)
        self._bad = progress.bad = sum(one.bad for one in done)
        self._rows = sum(one.written + one.bad for one in done)
        self._uncounted = sum(one.uncounted for one in done)
        ends = [0]
        for unit in plan.units:
            ends.append(ends[-1] + max(1, sum(file.size for file in unit)))
        self._share_at = [end / ends[-1] for end in ends]

    def __call__(self, stop: Stop, max_bad: float) -> None:
        """Do all parts. Raises Stopped, BadInput or another JobError; what is written by then is kept."""
        waiting: deque[Future[Record]] = deque()
        with ThreadPoolExecutor(1, "writer") as writer:
            try:
                with closing(ahead(self._parts(), 1, lambda rows: bool(rows.part.table.nbytes > LARGE))) as parts:
                    while (rows := self._next(parts, stop)) is not None:
                        outcome = self._predictor.run(rows, stop, self._progress.add)
                        self._count(rows.part, outcome, max_bad)
                        waiting.append(writer.submit(self._write, rows.part, outcome))
                        while len(waiting) > WRITES_WAITING or (waiting and waiting[0].done()):
                            waiting.popleft().result()
            finally:
                while waiting:
                    waiting.popleft().result()
        self._progress.through(1.0)
        # An object of a store has a version, which the parts' footers name.
        self._watch.check(file for unit in self._plan.units for file in unit if file.is_local)
        if self._shard.count * self._shard.workers == 1:
            judge(self._rows, self._bad, self._uncounted, max_bad)

    def _next(self, parts: Iterator[Sorted], stop: Stop) -> Sorted | None:
        with stop.waiting():
            return next(parts, None)

    def _parts(self) -> Iterator[Sorted]:
        columns, limits = self._plan.columns, self._plan.limits
        for unit, files in enumerate(self._plan.units):
            if self._is_done(unit):
                continue
            for file in files:
                self._watch.begin(file)
            for part in read_parts(files, unit, columns, limits, partial(self._wants, unit)):
                yield Sorted.of(part, columns.typed)

    def _is_done(self, unit: int) -> bool:
        """Tell whether no part of a unit is left to do for this worker."""
        if self._plan.is_shared(unit) and not self._plan.wants(self._shard, unit, 0):
            return True
        last = next((part for (of, part), one in self._done.items() if of == unit and one.last), None)
        return last is not None and not any(self._wants(unit, part) for part in range(last + 1))

    def _wants(self, unit: int, part: int) -> bool:
        return self._plan.wants(self._shard, unit, part) and (unit, part) not in self._done

    def _write(self, part: Part, outcome: Outcome) -> Record:
        self._watch.check(part.files)
        quarantine = self._plan.on_error == "quarantine"
        return self._output.write_part(part, outcome.table(), quarantine, self._watch.versions(part.files))

    def _count(self, part: Part, outcome: Outcome, max_bad: float) -> None:
        unread = sum(one.count for one in part.bad)
        part.bad = outcome.bad_rows()
        if part.bad:
            # Rows that look bad may be two versions of a file.
            self._watch.check(part.files)
        bad = sum(one.count for one in part.bad)
        if part.bad and self._plan.on_error == "fail":
            first = part.bad[0]
            raise BadInput(
                f"{first.file}, row {first.row}: {first.reason} ({bad} bad rows in this part; see --on-error)"
            )
        # Without blank lines, which are not rows.
        self._rows += len(part.table) + unread
        self._bad += bad
        self._uncounted += sum(one.uncounted for one in part.bad)
        judge(0, 0, self._uncounted, max_bad)
        before, after = self._share_at[part.unit : part.unit + 2]
        self._progress.bad, self._progress.batch_size = self._bad, self._predictor.batch_size.smallest
        self._progress.through(before + part.through * (after - before))
