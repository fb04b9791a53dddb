"""The whole job of one worker: plan, model, parts, and the end when nothing is missing."""

import contextlib
import gc
import importlib
import json
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .. import device, weights
from ..contract import ContractError, ran
from ..device.origin import is_project
from ..interface import LENGTHS, Interface
from ..words import words_of
from .calling import Caller
from .contents import Checksums, Watch
from .exits import DONE, MISTAKES, BadConfiguration, JobError, is_mistake
from .inputs import find_files
from .manifest import Ledger
from .messages import one_line, say
from .parameters import as_json, parameters_of
from .parts import TEXT
from .plan import NAME as PLAN
from .plan import Plan, checksums_in, code_fingerprint, weights_fingerprint
from .predicting import Predictor
from .progress import Metrics, Progress
from .provenance import RunRecord, provenance
from .publishing import (
    Damaged,
    check_ours,
    check_published,
    finish,
    judge_published,
    missing_parts,
    reopen_when_damaged,
    tidy,
)
from .reading import find_columns, first_rows
from .run import Run
from .settings import Repair, RunOptions
from .stop import Stop
from .store import SUCCESS, FinishedElsewhere, Store, open_store

RESERVED = ["file", "row"]
REPAIRS = 3


def run_job(options: RunOptions, arguments: Sequence[str]) -> int:
    """Do the work of this process and return the exit code 0. Raises JobError."""
    with Stop(options.grace) as stop:
        return _run_until(stop, options, arguments)


def _run_until(stop: Stop, options: RunOptions, arguments: Sequence[str]) -> int:
    with stop.at_once("the input was looked at and the model loaded"):
        store, plan, predictor, device_name = _prepare(options)
    if store.read(SUCCESS) is not None and not reopen_when_damaged(store):
        say(f"{options.output} is complete already; nothing to do")
        tidy(store)
        judge_published(store, options.max_bad)
        return DONE
    try:
        _work(options, arguments, store, plan, predictor, stop, device_name)
    except FinishedElsewhere:
        say("another worker has finished the same output")
    return DONE


def _prepare(options: RunOptions) -> tuple[Store, Plan, Predictor, str]:
    files = find_files(options.input, options.format, options.output, options.dialect)
    interface = import_model(options.package)
    columns = find_columns(files, interface, options.asked, options.limits)
    parameters = parameters_of(interface, options.parameters)
    if options.limit is not None:
        files = first_rows(files, options.limit, options.limits)
    if TEXT in columns.kept.names:
        raise BadConfiguration(f"the column {TEXT!r} cannot be kept: the job itself calls a column so")
    clash = set(columns.kept.names) & set(RESERVED)
    if clash:
        raise BadConfiguration(f"the column {min(clash)!r} cannot be kept: the output has one of this name")
    device_name = choose_device(options.device)
    store = open_store(options.output)
    check_ours(store, options.output)
    with Checksums(files) as checksums:
        load_model(interface.model, device_name)
        # Nothing that is loaded by now goes away: the garbage collector need not walk through it again and again.
        gc.freeze()
        caller = Caller(interface, columns, parameters, options.limits.row_size)
        predictor = Predictor(caller, device_name, options.batch_size, [*RESERVED, *columns.kept.names])
        plan = Plan(
            files,
            columns,
            options.limits,
            options.shard.count,
            options.on_error,
            predictor.schema,
            code_fingerprint(options.package),
            as_json(parameters),
            options.form,
            weights_fingerprint(options.package, weights.digest(interface.model)),
        )
        options.form.check(columns.kept, predictor.schema)
        store.prepare()
        plan.settle(store, checksums)
    return store, plan, predictor, device_name


def merge_job(output: str, max_bad: float) -> int:
    """Check that every part of all shards is there and publish the result; return 0. Raises JobError.

    max_bad: the share of bad rows, 0 to 1, that the result may lack.
    """
    store = open_store(output, make=False)
    plan = store.read(PLAN)
    if plan is None:
        raise BadConfiguration(f"{output} is not an output of this job: it has no {PLAN}")
    found = json.loads(plan)
    missing = missing_parts(store, len(found.get("together") or found["files"]))
    # Only now: the records that say what is there go when the result is published.
    if store.read(SUCCESS) is not None:
        check_published(store)
        say(f"{output} is complete already")
        judge_published(store, max_bad)
        return DONE
    if missing:
        some = ", ".join(missing[:5])
        raise JobError(f"{output} is not complete, {len(missing)} missing: {some}{' ...' if len(missing) > 5 else ''}")
    store.prepare()
    _publish(store, output, None, max_bad)
    return DONE


def choose_device(requested: str) -> str:
    """Return the device to use and say why. Raises JobError when the one asked for cannot be used."""
    try:
        chosen = device.choose(requested)
    except device.DeviceError as error:
        raise JobError(str(error)) from error
    say(device.reason(chosen))
    return chosen


def import_model(package: str) -> Interface:
    """Return the owner's model with its types, not loaded yet. Raises BadConfiguration when it cannot be imported."""
    try:
        module = importlib.import_module(f"{package}.model")
        own = module.Model
    except (ImportError, SyntaxError, SystemExit, *MISTAKES) as error:
        raise BadConfiguration(f"src/{package}/model.py cannot be imported: {words_of(error)}") from error
    if module.__file__:
        is_project(Path(module.__file__).parent)
    try:
        interface = Interface(own())
    except ContractError as error:
        raise BadConfiguration(str(error)) from None
    except (SystemExit, *MISTAKES) as error:
        raise BadConfiguration(f"the model cannot be made: {one_line(error)}") from error
    for deprecation in interface.deprecations:
        # Here `lengths` stays: a tokenizer is faster with many texts at once.
        if deprecation != LENGTHS.format(file=interface.file):
            say(deprecation)
    return interface


def load_model(model: Any, device_name: str) -> None:
    """Load the owner's model. Raises BadConfiguration when its code cannot do it."""
    try:
        ran(weights.load(model, device_name), "Model.load")
    except (ContractError, weights.WeightsError) as error:
        raise BadConfiguration(str(error)) from None
    except (SystemExit, KeyboardInterrupt) as ended:
        raise BadConfiguration(f"the model ends the process while it loads: {one_line(ended)}") from ended
    except Exception as error:
        if not is_mistake(error):
            raise
        traceback.print_exc()
        raise BadConfiguration(f"the model cannot be loaded: {one_line(error)}") from error


def _work(
    options: RunOptions,
    arguments: Sequence[str],
    store: Store,
    plan: Plan,
    predictor: Predictor,
    stop: Stop,
    device_name: str,
) -> None:
    shard = options.shard
    name = f"{shard.index}/{shard.count}" + (f".{shard.worker}/{shard.workers}" if shard.workers > 1 else "")
    record = RunRecord(store, options.package, arguments, device_name, name)
    progress = Progress(Metrics(options.metrics_file, options.push_gateway, name, shard.numbers), device_name)
    progress.batch_size = options.batch_size
    ledger = Ledger(store, partial(plan.wants, shard))
    if ledger.records:
        say(f"going on: {len(ledger.records)} parts are done")
    sums = checksums_in(store)
    code = JobError.code
    try:
        Run(plan, ledger, shard, predictor, progress, Watch(sums))(stop, options.max_bad)
        code = DONE
    except FinishedElsewhere:
        code = DONE
        raise
    except JobError as error:
        code = error.code
        raise
    finally:
        progress.close(code == DONE)
        say(progress.line())
        with contextlib.suppress(FinishedElsewhere, OSError):
            record.end(code, progress.rows)
    try:
        _complete(options, store, plan, predictor, stop, device_name, name, record)
    except JobError as error:
        with contextlib.suppress(OSError):
            record.end(error.code, progress.rows)
        raise


def _complete(
    options: RunOptions,
    store: Store,
    plan: Plan,
    predictor: Predictor,
    stop: Stop,
    device_name: str,
    name: str,
    record: RunRecord,
) -> None:
    """Publish the result when nothing is missing; parts that were lost meanwhile are made anew."""
    sums = checksums_in(store)
    for _ in range(REPAIRS):
        try:
            missing = missing_parts(store, len(plan.units))
            # Only now: the records that say what is there go when the result is published.
            if store.read(SUCCESS) is not None:
                return
            if missing and not options.shard.numbers:
                raise JobError(f"{missing[0]} is done and cannot be found: does {options.output} list new files late?")
            if missing:
                rest = f"{len(missing)} parts or more are missing from others"
                say(f"shard {name} is done; {rest}, the last one publishes")
                return
            Watch(sums).check_all(plan.files)
            _publish(store, options.output, record.content, options.max_bad)
            return
        except Damaged as damage:
            say(f"{damage.found}: made anew")
            repair = Progress(Metrics(None, None, name), device_name)
            damaged = Repair(parts=damage.parts)
            Run(plan, Ledger(store), damaged, predictor, repair, Watch(sums))(stop, options.max_bad)
            repair.close(True)
    raise JobError(f"parts in {options.output} are lost again and again: does another program write there?")


def _publish(store: Store, output: str, current: dict[str, Any] | None, max_bad: float) -> None:
    try:
        counts = finish(store, provenance(store, current), max_bad)
    except FinishedElsewhere:
        return
    bad = f", {counts['bad']:,} bad ones left out" if counts["bad"] else ""
    bad += ", and an unknown number that cannot be read" if counts.get("uncounted") else ""
    say(f"complete: {counts['written']:,} of {counts['written'] + counts['bad']:,} rows in {output}/data{bad}")
