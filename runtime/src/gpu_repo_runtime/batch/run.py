"""One worker's run: read, predict and write at the same time, part after part, until nothing is left."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

from .ahead import ahead
from .arrowmemory import ArrowMemory
from .budget import Budget, judge
from .combining import parts_together
from .contents import Watch
from .exits import BadInput
from .manifest import Ledger, Record
from .ordering import Sorted
from .parts import ROW, BadRow, Part
from .plan import Plan
from .predicting import Predictor
from .progress import Progress
from .reading import read_parts
from .results import Outcome
from .settings import Shard
from .stop import Stop
from .textfiles import Start
from .widening import without_notes

# Parts that are computed and not yet written: a process that is killed has to do them again.
WRITES_WAITING = 1
# While a part of more bytes is computed, the next one is read and no other one behind it.
LARGE = 8 << 20


class Run:
    """Does the parts of a shard that no record tells of."""

    def __init__(
        self, plan: Plan, ledger: Ledger, shard: Shard, predictor: Predictor, progress: Progress, watch: Watch
    ) -> None:
        self._plan, self._ledger, self._shard = plan, ledger, shard
        self._predictor, self._progress, self._watch = predictor, progress, watch
        self._rows = sum(record.written + record.bad for record in ledger.records.values())
        self._bad = progress.bad = sum(record.bad for record in ledger.records.values())
        self._uncounted = sum(record.uncounted for record in ledger.records.values())
        ends = [0]
        for unit in plan.units:
            ends.append(ends[-1] + max(1, sum(file.size for file in unit)))
        self._share_at = [end / ends[-1] for end in ends]

    def __call__(self, stop: Stop, max_bad: float) -> None:
        """Do all parts. Raises Stopped, BadInput or another JobError; what is written by then is kept.

        max_bad: the share of bad rows, 0 to 1, from which on the whole input is bad. Who publishes judges for several.
        """
        alone = self._shard.count * self._shard.workers == 1
        budget = Budget(self._plan.files, max_bad, None if alone else self._bad_of_all)
        with ArrowMemory() as memory, ThreadPoolExecutor(1, "writer") as writer:

            def is_large(rows: Sorted) -> bool:
                large = bool(rows.part.table.nbytes > LARGE)
                memory.after(large=large)
                return large

            waiting: deque[Future[Record]] = deque()
            try:
                with closing(ahead(map(self._sorted, self._parts()), 1, is_large)) as parts:
                    while self._go_on(parts, writer, waiting, stop, budget, max_bad):
                        while len(waiting) > WRITES_WAITING or (waiting and waiting[0].done()):
                            waiting.popleft().result()
            finally:
                while waiting:
                    waiting.popleft().result()
        if alone:
            judge(self._rows, self._bad, self._uncounted, max_bad)

    def _bad_of_all(self) -> int:
        return sum(record.bad for record in self._ledger.of_all().records.values())

    def _go_on(
        self,
        parts: Iterator[Sorted],
        writer: ThreadPoolExecutor,
        waiting: deque[Future[Record]],
        stop: Stop,
        budget: Budget,
        max_bad: float,
    ) -> bool:
        """Do the next part; return False when there is none."""
        with stop.waiting():
            rows = next(parts, None)
        if rows is None:
            return False
        outcome = self._predictor.run(rows, stop, self._progress.add)
        bad = outcome.bad_rows()
        self._count(rows.part, bad)
        judge(0, 0, self._uncounted, max_bad)
        with stop.waiting():
            budget.look(self._rows, self._bad)
        waiting.append(writer.submit(self._write, rows.part, outcome, bad))
        return True

    def _sorted(self, part: Part) -> Sorted:
        return Sorted.of(part, self._plan.columns.typed)

    def _parts(self) -> Iterator[Part]:
        """Yield the parts that are to be done, file by file."""
        for file_index, unit in enumerate(self._plan.units):
            start = self._start(file_index)
            if start is None:
                continue

            def wanted(index: int, file_index: int = file_index) -> bool:
                return self._wants(file_index, index) and (file_index, index) not in self._ledger.records

            first, columns, limits = unit[0], self._plan.columns, self._plan.limits
            if len(unit) > 1:
                yield from parts_together(unit, file_index, columns, limits, self._watch.begin, wanted)
                continue
            for part in read_parts(self._watch.begin(first), file_index, columns, limits, start, wanted):
                if isinstance(part, Part):
                    yield part

    def _start(self, file_index: int) -> Start | None:
        """Return where the first part to be done may begin, None when the file has none any more."""
        start, index = Start(), 0
        if self._plan.is_shared(file_index) and not self._shard.wants_some(file_index):
            return None
        while not self._wants(file_index, index) or (file_index, index) in self._ledger.records:
            record = self._ledger.records.get((file_index, index))
            if record and record.last:
                return None
            if record:
                start = Start(index + 1, record.first_row + record.rows, record.end)
            elif index > start.index + self._shard.count * self._shard.workers:
                break
            index += 1
        return start

    def _wants(self, file_index: int, index: int) -> bool:
        return self._plan.wants(self._shard, file_index, index)

    def _write(self, part: Part, outcome: Outcome, bad: list[BadRow]) -> Record:
        self._watch.check_all(part.files)
        table = outcome.table()
        planned = without_notes([*self._plan.columns.kept, *self._plan.result])
        wider = not table.drop_columns([ROW]).schema.equals(planned)
        table = part.with_origins(table)
        quarantine = self._plan.on_error == "quarantine"
        versions = {file.name: tag for file in part.files if (tag := self._watch.tag(file))}
        return self._ledger.write(part, table, bad, quarantine, wider, versions, self._plan.form)

    def _count(self, part: Part, bad: list[BadRow]) -> None:
        if bad:
            # What looks bad may be two files in one.
            self._watch.check_all(part.files)
        if bad and self._plan.on_error == "fail":
            first = bad[0]
            file, row = part.origin(first.row)
            raise BadInput(
                f"{file.name}, row {row}: {first.reason} "
                f"({sum(b.count for b in bad)} bad rows in this part; see --on-error)"
            )
        # Without blank lines, which are not rows.
        self._rows += len(part.table) + sum(b.count for b in part.bad)
        self._bad += sum(b.count for b in bad)
        self._uncounted += sum(b.uncounted for b in bad)
        before, after = self._share_at[part.file_index : part.file_index + 2]
        self._progress.bad = self._bad
        self._progress.batch_size = self._predictor.batch_size.smallest
        self._progress.through(before + part.through * (after - before))
