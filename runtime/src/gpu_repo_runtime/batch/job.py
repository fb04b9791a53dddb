"""The whole job of one worker: plan, model, parts, and the end when nothing is missing."""

import gc
import importlib
import traceback
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from .. import device, weights
from ..contract import ContractError
from ..interface import Interface
from ..words import words_of
from .calling import Caller
from .exits import DONE, MISTAKES, BadConfiguration, JobError
from .inputs import PLAN, find_files
from .messages import one_line, say
from .options import parameters_of
from .output import FinishedElsewhere, Output
from .parts import FILE, INPUT, ROW
from .plan import Plan, code_fingerprint
from .predicting import Predictor
from .progress import Progress
from .publishing import check_ours, missing_parts, provenance, publish
from .reading import first_rows
from .run import Run
from .schema import find_columns
from .stop import Stop
from .workers import LEFT_TO_OTHERS

RESERVED = [FILE, ROW]


def run_job(options: Namespace, arguments: Sequence[str]) -> int:
    """Do the work of this process and return the exit code 0. Raises JobError."""
    with Stop(options.grace) as stop:
        with stop.at_once("the input was looked at and the model loaded"):
            output, plan, predictor, device_name = _prepare(options)
        if output.is_complete:
            say(f"{options.output} is complete already; nothing to do")
            return DONE
        progress = Progress(device_name)
        try:
            Run(plan, output, options.shard, predictor, progress)(stop, options.max_bad)
        except FinishedElsewhere:
            say("another worker has finished the same output")
            return DONE
        finally:
            progress.close()
        with suppress(FinishedElsewhere):
            _complete(output, plan, options, arguments, device_name)
        return DONE


def _prepare(options: Namespace) -> tuple[Output, Plan, Predictor, str]:
    files = find_files(options.input, options.format, options.output, options.dialect)
    interface = import_model(options.package)
    columns = find_columns(files, interface, options, options.limits)
    parameters = parameters_of(interface, options.parameters)
    if options.limit is not None:
        files = first_rows(files, options.limit, columns, options.limits)
    clash = set(columns.kept.names) & {*RESERVED, INPUT}
    if clash:
        raise BadConfiguration(
            f"the output has a column {min(clash)!r} already: leave it out of --keep; file and row join both"
        )
    device_name = choose_device(options.device)
    output = Output(options.output)
    check_ours(output, options.output, PLAN)
    load_model(interface.model, device_name)
    # Objects that are loaded by now stay: the garbage collector need not walk through them again and again.
    gc.freeze()
    caller = Caller(interface, columns, parameters)
    predictor = Predictor(caller, device_name, options.batch_size, [*RESERVED, *columns.kept.names])
    lock = weights.used(interface.model)
    plan = Plan(
        files,
        columns,
        options.limits,
        options.shard.count,
        options.on_error,
        predictor.schema,
        code_fingerprint(options.package),
        parameters,
        lock.digest if lock else "",
        options.limit,
    )
    output.prepare()
    plan.settle(output, options.ignore_mtime)
    return output, plan, predictor, device_name


def choose_device(requested: str) -> str:
    """Return the device to use and say why. Raises JobError when the one asked for cannot be used."""
    try:
        chosen = device.choose(requested)
    except device.DeviceError as error:
        raise JobError(str(error)) from error
    # Without a look at a framework that the model may not need.
    say("cpu: requested" if requested == "cpu" else device.reason(chosen))
    return chosen


def import_model(package: str) -> Interface:
    """Return the owner's model with its types, not loaded yet. Raises BadConfiguration when it cannot be imported."""
    try:
        module = importlib.import_module(f"{package}.model")
        own = module.Model
    except (ImportError, SyntaxError, SystemExit, *MISTAKES) as error:
        raise BadConfiguration(f"src/{package}/model.py cannot be imported: {words_of(error)}") from error
    try:
        interface = Interface(own())
    except ContractError as error:
        raise BadConfiguration(str(error)) from None
    except (SystemExit, *MISTAKES) as error:
        raise BadConfiguration(f"the model cannot be made: {one_line(error)}") from error
    for deprecation in interface.deprecations:
        say(deprecation)
    return interface


def load_model(model: Any, device_name: str) -> None:
    """Load the owner's model. Raises BadConfiguration when its code cannot do it."""
    try:
        weights.load(model, device_name)
    except weights.WeightsError as error:
        raise BadConfiguration(str(error)) from None
    except (SystemExit, KeyboardInterrupt) as ended:
        raise BadConfiguration(f"the model ends the process while it loads: {one_line(ended)}") from ended
    except Exception as error:
        if not isinstance(error, (*MISTAKES, FileNotFoundError)):
            raise
        traceback.print_exc()
        # What pickle says of a function that was defined in the script that saved it.
        hint = "; define it in the package and save again" if "__main__" in str(error) else ""
        raise BadConfiguration(f"the model cannot be loaded: {one_line(error)}{hint}") from error


def _complete(output: Output, plan: Plan, options: Namespace, arguments: Sequence[str], device_name: str) -> None:
    """Publish the result when nothing is missing."""
    records = output.records()
    missing = missing_parts(records, plan.units)
    if output.is_complete:
        return
    if missing and options.shard.is_alone:
        raise JobError(f"{missing[0]} is lost, start again: does another program write to {options.output}?")
    if missing:
        say(f"shard {options.shard} is done; {len(missing)} parts or more are missing from others, {LEFT_TO_OTHERS}")
        return
    story = provenance(options, arguments, plan, device_name)
    counts = publish(output, records, story, options.max_bad)
    bad = f"; bad rows, left out: {counts['bad']:,}" if counts["bad"] else ""
    say(f"complete: {counts['written']:,} of {counts['written'] + counts['bad']:,} rows in {options.output}/data{bad}")
