"""One worker's run: read, predict and write at the same time, part after part, until nothing is left."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from .answers import Outcome
from .exits import BadInput
from .inputs import Watch
from .messages import say
from .ordering import Sorted
from .output import Output, Record
from .parts import Part, Shard, Todo
from .plan import Plan
from .predicting import Predictor
from .progress import Progress
from .reading import read_units
from .stop import Stop


class Run:
    """Does the parts of a shard that are not there yet."""

    def __init__(self, plan: Plan, output: Output, shard: Shard, predictor: Predictor, progress: Progress) -> None:
        self._plan, self._output, self._predictor, self._progress = plan, output, predictor, progress
        self._watch = Watch()
        shared = frozenset(number for number, unit in enumerate(plan.units) if len(unit) > 1)
        self._done = output.records(Todo(shard, shared).wants)
        self._todo = Todo(shard, shared, self._done)
        if done := self._done.values():
            say(f"resuming: {len(done)} parts are done")
        progress.bad = sum(one.bad for one in done)
        ends = [0]
        for unit in plan.units:
            ends.append(ends[-1] + max(1, sum(file.size for file in unit)))
        self._share_at = [end / ends[-1] for end in ends]

    def __call__(self, stop: Stop, max_bad: float) -> None:
        """Do all parts. Raises Stopped, BadInput or another JobError; what is written by then is kept."""
        plan, written = self._plan, None
        with ThreadPoolExecutor(1, "writer") as writer:
            try:
                units = [(number, files) for number, files in enumerate(plan.units) if not self._is_done(number)]
                read = read_units(units, plan.columns, plan.limits, self._todo, self._watch)
                with closing(ahead(read)) as parts:
                    while (rows := self._next(parts, stop)) is not None:
                        outcome = self._predictor.run(rows, stop, self._progress.add)
                        self._count(rows.part, outcome, max_bad)
                        if written:
                            written.result()
                        # One part is computed and not yet written: a process that is killed has to do it again.
                        written = writer.submit(self._write, rows.part, outcome)
            finally:
                if written:
                    written.result()
        self._progress.share = 1.0
        # An object of a store has a version, which the parts' footers name.
        self._watch.check(file for unit in plan.units for file in unit if file.is_local)

    def _next(self, parts: Iterator[Sorted], stop: Stop) -> Sorted | None:
        stop.again()
        rows = next(parts, None)
        stop.between_parts()
        return rows

    def _is_done(self, unit: int) -> bool:
        """Tell whether no part of a unit is left to do for this worker."""
        if unit in self._todo.shared and not self._todo.wants(unit, -1):
            return True
        last = next((part for (of, part), one in self._done.items() if of == unit and one.last), None)
        return last is not None and not any(self._todo.wants(unit, part) for part in range(last + 1))

    def _write(self, part: Part, outcome: Outcome) -> Record:
        self._watch.check(part.files)
        quarantine = self._plan.columns.kept if self._plan.on_error == "quarantine" else None
        table = outcome.rows.in_order_of_input(outcome.table(), sorted(outcome.bad))
        return self._output.write_part(part, table, quarantine, self._watch.versions(part.files))

    def _count(self, part: Part, outcome: Outcome, max_bad: float) -> None:
        part.bad = outcome.rows.bad_rows(outcome.bad)
        if part.bad:
            # Rows that look bad may be two versions of a file.
            self._watch.check(part.files)
        bad = len(part.bad)
        if part.bad and self._plan.on_error == "fail":
            first = part.bad[0]
            aside = f"{bad} bad row{'s' * (bad > 1)} in this part; --on-error quarantine puts them aside"
            raise BadInput(f"{first.file}, row {first.row}: {first.reason} ({aside})")
        for one in (one for one in part.bad if one.uncounted):
            if max_bad < 1:
                raise BadInput(f"{one.file}, row {one.row}: {one.reason}; --max-bad 1 continues without them")
            say(f"left out: {one.file}, row {one.row}: {one.reason}")
        before, after = self._share_at[part.unit : part.unit + 2]
        self._progress.bad += bad
        self._progress.batch_size = self._predictor.batch_size.smallest
        self._progress.share = before + part.through * (after - before)


def ahead(items: Iterator[Sorted]) -> Generator[Sorted, None, None]:
    """Yield the items; a thread makes the next one while one is used. An error of theirs is raised here."""
    with ThreadPoolExecutor(1, "reader") as reader:
        following = reader.submit(next, items, None)
        while item := following.result():
            following = reader.submit(next, items, None)
            yield item
