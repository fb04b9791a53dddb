"""Where the time goes on a small input, and what each batch size needs: a table and a trace."""

import contextlib
import sys
import time
from argparse import Namespace
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..profiling import Measured, rate_and_memory, table, traced
from .calling import Caller
from .columns import Columns
from .exits import DONE, BadInput
from .inputs import Watch, find_files
from .job import RESERVED, choose_device, import_model, load_model
from .messages import say
from .ordering import Sorted
from .output import as_bytes, to_json
from .parts import InputFile, Limits, Shard, Todo
from .plan import units_of
from .predicting import Predictor
from .reading import read_units
from .schema import find_columns
from .stop import Stop

LIMITS = Limits(10_000, 32 << 20, 16 << 20)


def profile_job(options: Namespace) -> int:
    """Profile a small input and return the exit code 0. Raises JobError."""
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    chosen = choose_device(options.device)
    interface = import_model(options.package)
    files = find_files(options.input)
    columns = find_columns(files, interface, options, LIMITS)
    load_model(interface.model, chosen)
    caller = Caller(interface, columns)
    begin = time.perf_counter()
    rows = _read(files, columns, options.rows)
    seconds = {"input": time.perf_counter() - begin}
    if not sum(len(part.order) for part in rows):
        raise BadInput("there is no good row in the input to profile with")
    predictor = Predictor(caller, chosen, None, RESERVED)
    sizes = options.batch_sizes or [predictor.usual * part // 8 for part in (1, 4, 8, 16, 32)]
    _predict(predictor, rows)
    operators = traced(lambda: _predict(predictor, rows), chosen, folder)
    begin = time.perf_counter()
    outcomes = _predict(predictor, rows)
    seconds["prediction"] = time.perf_counter() - begin
    begin = time.perf_counter()
    for outcome in outcomes:
        (folder / "sample.parquet").write_bytes(as_bytes(outcome.table()))
    seconds["output"] = time.perf_counter() - begin
    measured = [_measure(caller, chosen, size, _enough(rows, size, columns)) for size in sizes]
    numbers = {"device": chosen, "batches": [asdict(one) for one in measured], "seconds": seconds}
    (folder / "profile.json").write_bytes(to_json(numbers))
    with contextlib.suppress(BrokenPipeError):
        _print(seconds, table(measured, chosen), operators, sum(len(part.order) for part in rows))
        sys.stdout.flush()
    say(f"numbers and trace are in {folder}")
    return DONE


def _read(files: list[InputFile], columns: Columns, count: int) -> list[Sorted]:
    limits = Limits(min(count, LIMITS.rows), LIMITS.size, LIMITS.row_size)
    units = [*enumerate(units_of(files, columns, limits, 1))]
    parts = read_units(units, columns, limits, Todo(Shard(), frozenset()), Watch())
    return [*islice(parts, -(-count // limits.rows))]


def _predict(predictor: Predictor, rows: list[Sorted]) -> list[Any]:
    return [predictor.run(part, Stop(0), lambda _: None) for part in rows]


def _measure(caller: Caller, chosen: str, size: int, rows: list[Sorted]) -> Measured:
    predictor = Predictor(caller, chosen, size, RESERVED)
    count = sum(len(part.order) for part in rows)
    rate, memory = rate_and_memory(lambda: _predict(predictor, rows), count, chosen)
    return Measured(predictor.batch_size.smallest, rate, memory)


def _enough(rows: list[Sorted], size: int, columns: Columns) -> list[Sorted]:
    """Return the largest part, with its rows repeated until they fill a batch of that size."""
    largest = max(rows, key=lambda one: len(one.order))
    repeated = replace(largest.part, bad=[])
    repeated.set(pa.concat_tables([largest.part.table] * -(-size // len(largest.order))))
    return [Sorted.of(repeated, columns)]


def _print(seconds: dict[str, float], sizes: str, operators: str, count: int) -> None:
    total = sum(seconds.values())
    print(f"{count:,} rows\n\nwhere the time goes")
    for name, value in seconds.items():
        print(f"  {name:10} {value:8.3f} s {value / total:6.1%}")
    print(f"\n{sizes}")
    print(f"\n{operators}")
