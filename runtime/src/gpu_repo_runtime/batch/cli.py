"""The command line: `run` predicts, `train` learns, `profile` measures."""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from .columns import DECLARED
from .exits import BAD_CONFIGURATION, RETRY, BadConfiguration, JobError, is_refused
from .messages import masked, say
from .options import (
    above_zero,
    address,
    column_types,
    delimiter,
    encoding,
    find_shard,
    names,
    not_blank,
    nulls,
    positive,
    seconds,
    share,
    whole,
)
from .parts import Dialect, Limits, Shard
from .predicting import INPUTS, OBJECTS_OF_NUMBERS, TABLE_ROWS
from .stop import Stop
from .workers import WORKER, own_number, run_workers, visible_gpus

DEVICES = ("auto", "cuda", "cpu")


class Parser(argparse.ArgumentParser):
    """Ends with the exit code for bad configuration, so that a Kubernetes Job does not try again."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and how to get help."""
        self.exit(BAD_CONFIGURATION, masked(f"job: {message}; see {self.prog} --help") + "\n")


def main(package: str, arguments: Sequence[str]) -> int:
    """Run the command line around an owner's package and return the exit code (exits.py says what each means)."""
    try:
        options = _parser(package).parse_args(arguments)
        if "--on" in arguments:
            say("--on is now --ray-address; the old name works until version 0.8")
    except SystemExit as ended:
        return int(ended.code or 0)
    try:
        return int(options.start(options, arguments))
    except JobError as error:
        say(str(error))
        return error.code
    except OSError as error:
        if is_refused(error):
            say(f"{error}; check the permissions and names")
            return BAD_CONFIGURATION
        say(f"{error}; start the same command again")
        return RETRY
    except (Exception, SystemExit):
        print(masked(traceback.format_exc()), file=sys.stderr)
        say("unexpected error (traceback above); start the same command again")
        return RETRY


def _parser(package: str) -> Parser:
    parser = Parser(prog=f"python -m gpu_repo_runtime.batch {package}", description=__doc__)
    parser.set_defaults(package=package)
    commands = parser.add_subparsers(required=True, metavar="run|train|profile")
    run = commands.add_parser("run", help="predict every row of the input", formatter_class=_Help)
    run.set_defaults(start=_run)
    what = run.add_argument_group("what")
    _add_input(what)
    what.add_argument("--output", required=True, type=address, metavar="FOLDER|URI", help="finished parts are kept")
    what.add_argument("--format", choices=["parquet", "jsonl", "csv", "tsv", "txt"], help="if file names do not say it")
    what.add_argument("--limit", type=positive, metavar="ROWS", help="only the first rows of the input, for a trial")
    what.add_argument("--delimiter", type=delimiter, metavar="CHARACTER", help="of CSV: , or a tab")
    what.add_argument("--quote", choices=['"', "'", "none"], default='"', help="of CSV; none: a part of the text")
    what.add_argument("--encoding", type=encoding, metavar="NAME", help="of text files: UTF-8")
    what.add_argument("--header", type=names, default=[], metavar="A,B", help="column names of CSV without a header")
    what.add_argument("--null", type=nulls, default=[], metavar="WORD,WORD", help="words in CSV for no value, as NA")
    what.add_argument("--ignore-mtime", action="store_true", help="accept a copy of the files with other times")
    _add_columns(what)
    what.add_argument("--keep", type=names, metavar="A,B", help="columns to copy to the output, '*' for all")
    types = f"of kept columns: {', '.join(DECLARED)}"
    what.add_argument("--types", type=column_types, default={}, metavar="A=TYPE,B=TYPE", help=types)
    own = "a field of the model's Parameters"
    what.add_argument("--parameter", action="append", default=[], metavar="NAME=VALUE", dest="parameters", help=own)
    errors = run.add_argument_group("bad rows")
    modes = ["fail", "skip", "quarantine"]
    errors.add_argument("--on-error", choices=modes, default="fail", help="quarantine: write them to _quarantine")
    errors.add_argument("--max-bad", type=share, default=0.1, help="give up when more than this share of rows is bad")
    errors.add_argument("--max-row-bytes", type=positive, default=16 << 20, help="a longer row is a bad row")
    speed = run.add_argument_group("how")
    _add_device(speed)
    size = f"rows for one call of the model; {INPUTS}, {OBJECTS_OF_NUMBERS} for numbers, {TABLE_ROWS} for tables"
    speed.add_argument("--batch-size", type=positive, help=size)
    speed.add_argument("--part-rows", type=positive, default=10_000, help="rows of a file; a kill loses at most these")
    speed.add_argument("--part-bytes", type=positive, default=32 << 20, help="a part of large rows ends here")
    speed.add_argument("--shard", metavar="I/N", help="part I of N; else JOB_COMPLETION_INDEX")
    speed.add_argument("--workers", type=positive, help="processes on this machine; one for each GPU if not set")
    speed.add_argument("--ray-address", "--on", type=not_blank, metavar="ray://HOST:PORT", help="a Ray cluster")
    speed.add_argument("--grace", type=seconds, default=100, metavar="SECONDS", help="time to end after SIGTERM")
    _add_train(commands)
    _add_profile(commands)
    return parser


def _add_input(group: Any) -> None:
    paths = "files, folders, quoted wildcards, URIs"
    group.add_argument("--input", nargs="+", action="extend", required=True, type=address, metavar="PATH", help=paths)


def _add_device(group: Any) -> None:
    default, metavar = os.environ.get("DEVICE", "auto"), "|".join(DEVICES)
    group.add_argument("--device", type=device_name, metavar=metavar, default=default, help="or the variable DEVICE")


def _add_columns(group: Any) -> None:
    which = "the column with the text; FIELD=COLUMN where a field of Input has another name"
    group.add_argument("--columns", "--column", type=names, default=[], metavar="A,B", help=which)
    group.add_argument("--files", "--root", type=no_files, help=argparse.SUPPRESS)


def device_name(text: str) -> str:
    """Return a device, also from the environment, where it may be empty."""
    if text and text not in DEVICES:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(DEVICES)} (is it DEVICE in the environment?)")
    return text or "auto"


def no_files(text: str) -> NoReturn:
    """Refuse the options of versions up to 0.5 that opened paths in a column."""
    raise argparse.ArgumentTypeError("paths are not opened: write the content into a Parquet file, or open in predict")


def _add_train(commands: Any) -> None:
    train = commands.add_parser("train", help="train the task of src/<package>/task.py", formatter_class=_Help)
    train.set_defaults(start=_train)
    train.add_argument("--output", required=True, type=address, metavar="FOLDER", help="checkpoints, weights, metrics")
    train.add_argument("--epochs", type=positive, default=20)
    train.add_argument("--batch-size", type=positive, default=64, help="examples of one pass on one GPU")
    train.add_argument("--accumulate", type=positive, help="batches for one step; 1 if not set (torch)")
    train.add_argument("--learning-rate", type=above_zero, help="0.003 if not set")
    train.add_argument("--clip", type=above_zero, help="the largest norm of the gradients; 1 if not set")
    precisions = ["auto", "float32", "bfloat16", "float16"]
    train.add_argument("--precision", choices=precisions, help="if not set: bfloat16 where the GPU has it (torch)")
    train.add_argument("--patience", type=whole, default=3, help="epochs without a better one; 0: no limit")
    train.add_argument("--checkpoint-steps", type=positive, default=500, help="steps between checkpoints in an epoch")
    train.add_argument("--seed", type=whole, default=0)
    train.add_argument("--num-workers", type=whole, help="processes that read the data ahead (torch)")
    _add_device(train)


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Leaves out defaults that say nothing."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return super()._get_help_string(action) if action.default else action.help


def _add_profile(commands: Any) -> None:
    profile = commands.add_parser("profile", help="show where time is spent on a small input", formatter_class=_Help)
    profile.set_defaults(start=_profile, keep=None, types={})
    _add_input(profile)
    charts = "for the chart and the trace"
    profile.add_argument("--output", type=address, default="build/profile", metavar="FOLDER", help=charts)
    _add_columns(profile)
    profile.add_argument("--rows", type=positive, default=2000, help="about how many rows are read")
    sizes = "the sizes to compare; a few around the usual one if not set"
    profile.add_argument("--batch-sizes", type=positive, nargs="+", metavar="N", help=sizes)
    _add_device(profile)


def _run(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    index, count = find_shard(options.shard)
    if (ray := options.ray_address) and WORKER not in os.environ:
        if (index, count) != (0, 1):
            raise BadConfiguration("--ray-address splits the work itself: omit --shard and JOB_COMPLETION_INDEX")
        from .onray import run_on

        return run_on(ray, options.package, arguments, options.device, options.workers, options.grace)
    worker, workers = own_number()
    gpus = 0 if options.device == "cpu" else len(visible_gpus())
    wanted = options.workers or max(1, gpus)
    if wanted > 1 and WORKER not in os.environ:
        return run_workers(options.package, arguments, wanted, on_gpus=gpus >= wanted)
    # Only now: the framework looks for its GPU when it is imported.
    from .job import run_job

    options.shard = Shard(index, count, worker, workers)
    header, nulls = tuple(options.header), tuple(options.null)
    options.dialect = Dialect(options.delimiter or "", options.encoding or "", header, nulls, options.quote)
    options.limits = Limits(options.part_rows, options.part_bytes, options.max_row_bytes)
    return run_job(options, arguments)


def _train(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from ..training.job import train_job

    return train_job(options)


def _profile(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from .profiling import profile_job

    # A Ctrl-C inside of the model would look like a row that ends the process, which is a bad one.
    with Stop(0) as stop, stop.at_once("the model was profiled"):
        return profile_job(options)
