"""The command line: options, order of events, exit codes (0 pass, 1 fail, 2 wrong use, 3 could not run)."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import re
import signal
import sys
import time
from datetime import UTC
from typing import TYPE_CHECKING, Any, TextIO

from .policy import FRAMEWORKS, LEVELS, Options
from .version import VERSION

if TYPE_CHECKING:
    from .verdicts import Context

PASS, FAIL, WRONG_USE, COULD_NOT_RUN = 0, 1, 2, 3
REPORTS = ("json", "junit")
DEFAULT_TIMEOUT_S = 120.0


def parser() -> argparse.ArgumentParser:
    """Return the parser; argparse itself ends with 2 on wrong use."""
    made = argparse.ArgumentParser(
        prog="gpu-smoke",
        description="Walk the GPU call stack layer by layer; name the lowest fault, its cause and its fix.",
        epilog="Exit codes: 0 pass, 1 fail, 2 wrong use, 3 could not run. A skip never counts as a pass.",
    )
    made.add_argument("--mode", choices=("image", "node"), default="node", help="image: needs no driver (docker build)")
    made.add_argument("--require", choices=LEVELS, default="none", help="level up to which every layer must pass")
    known = (*FRAMEWORKS, "plain")
    made.add_argument("--framework", choices=known, help="default: the image's, else what is installed")
    made.add_argument(
        "--model", metavar="MODULE:CLASS", default="", help="the project's model, compared on GPU and CPU"
    )
    made.add_argument(
        "--gpus", metavar="all|N", type=_gpus, default=0, help="how many GPUs to test (default: all visible)"
    )
    made.add_argument(
        "--timeout", metavar="SECONDS", type=_seconds, default=DEFAULT_TIMEOUT_S, help="for each layer (120)"
    )
    for kind in REPORTS:
        made.add_argument(f"--{kind}", metavar="FILE", help=f"also write the report as {kind} (-: standard output)")
    made.add_argument(
        "--explain",
        metavar="CODE",
        help="say what a finding, a layer, a number, a name or an error message means (all: every finding)",
    )
    made.add_argument("--version", action="version", version=f"gpu-smoke {VERSION}")
    return made


def _gpus(text: str) -> int:
    if text == "all":
        return 0
    if not re.fullmatch(r"[1-9]\d{0,3}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is neither `all` nor a number above 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def _check(arguments: argparse.Namespace, made: argparse.ArgumentParser) -> None:
    if arguments.mode == "image" and arguments.require != "none":
        made.error(f"--mode image sees no GPU, so --require {arguments.require} can never pass: use --mode node")
    if arguments.require == "model" and not arguments.model:
        made.error("--require model needs --model MODULE:CLASS")
    if arguments.model and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", arguments.model):
        made.error(f"--model {arguments.model}: want MODULE:CLASS, such as my_project.model:Model")
    _check_files({kind: getattr(arguments, kind) for kind in REPORTS if getattr(arguments, kind) is not None}, made)


def _check_files(files: dict[str, str], made: argparse.ArgumentParser) -> None:
    taken: dict[str, str] = {}
    streams = [kind for kind, path in files.items() if path == "-"]
    if len(streams) > 1:
        made.error(f"--{streams[0]} - and --{streams[1]} -: only one report can go to standard output")
    for kind, path in files.items():
        if path == "-":
            continue
        folder = os.path.dirname(path) or "."
        if not path or os.path.isdir(path):
            made.error(f"--{kind} {path or repr(path)} is not a file: name a file")
        if not os.path.isdir(folder):
            made.error(f"--{kind} {path}: the folder {folder} does not exist")
        other = taken.setdefault(os.path.realpath(path), kind)
        if other != kind and (os.path.isfile(path) or not os.path.exists(path)):
            made.error(f"--{kind} {path} is also where --{other} goes: name another file")


def main(argv: list[str] | None = None) -> int:
    """Run the program and return its exit code."""
    _reopen_std_streams()
    made = parser()
    arguments = made.parse_args(argv)
    if arguments.explain is not None:
        return _explain(arguments.explain)
    _check(arguments, made)
    if not sys.platform.startswith("linux"):
        return _refuse("this needs Linux (or WSL): run it inside the container")
    # As the first process of a container this would not hear `docker stop` at all.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return _refuse("interrupted")
    except OSError as error:
        # What standard output did not take is dropped: Python would try again at its end, and end with 120.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return _refuse(str(error))


def _reopen_std_streams() -> None:
    """Give closed standard files a place: a probe's pipe must not become one of them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))


def _refuse(reason: str) -> int:
    print(f"gpu-smoke: could not run: {reason}", file=sys.stderr)
    return COULD_NOT_RUN


def _explain(asked: str) -> int:
    from .explain import explain
    from .host import Host
    from .platforms import detect

    env = dict(os.environ)
    try:
        _say(explain(asked, detect(Host(env.get("GPU_SMOKE_ROOT", "")), env).names))
    except KeyError:
        more = "https://docs.nvidia.com/deploy/xid-errors" if "xid" in asked.lower() else "docs/gpu-stack.md"
        said = (
            f"gpu-smoke: {asked!r} is unknown here: pass a finding (GS502), a number (802, nvml:15, xid:79), a name, "
        )
        _say(f"{said}a layer or an error message; `all` lists every finding. See also {more}\n", sys.stderr)
        return WRONG_USE
    return PASS


def _run(arguments: argparse.Namespace) -> int:
    # With a report on standard output, what people read goes beside it.
    people = sys.stderr if "-" in (getattr(arguments, kind) for kind in REPORTS) else sys.stdout
    from .host import Host
    from .platforms import detect

    env = dict(os.environ)
    host = Host(env.get("GPU_SMOKE_ROOT", ""))
    platform = detect(host, env)
    _say(f"gpu-smoke {VERSION}: {arguments.mode} mode, required: {arguments.require}, on {platform.kind}\n\n", people)

    from .reports import text
    from .row import DEFAULT_PATH, read_row
    from .verdicts import Context

    row = read_row(env.get("GPU_SMOKE_IMAGE_JSON") or DEFAULT_PATH)
    options = Options(arguments.mode, arguments.require, arguments.framework or _framework(row.text("framework")),
                      arguments.model, arguments.gpus, arguments.timeout)  # fmt: skip
    report = _walk(Context(host, env, platform, row, options))
    colour = people.isatty() and not env.get("NO_COLOR") and env.get("TERM") != "dumb"
    _say(text.render(report, text.Paint(colour, people.encoding)), people)
    _write(arguments, report)
    return int(report["exit_code"])


def _walk(context: Context) -> dict[str, Any]:
    from datetime import datetime

    from . import walk
    from .progress import show
    from .reports.build import build

    started, began = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    try:
        walk.gather(context, show)
    finally:
        show([])
    layers = walk.evaluate(context)
    return build(context, layers, started, time.monotonic() - began)


def _framework(named: str) -> str:
    """Return the image's framework, else the first one that is installed, else plain."""
    if named in (*FRAMEWORKS, "plain"):
        return named
    for name in FRAMEWORKS:
        with contextlib.suppress(ValueError, ImportError):
            if importlib.util.find_spec(name):
                return name
    return "plain"


def _say(text: str, stream: TextIO | None = None) -> None:
    """Print at once; a reader that went away does not change the verdict."""
    stream = stream or sys.stdout
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _write(arguments: argparse.Namespace, report: dict[str, Any]) -> None:
    """Write every report that was asked for. Raises OSError that names those that could not be written."""
    from .reports.build import write_whole

    failed = []
    for kind in REPORTS:
        path = getattr(arguments, kind)
        try:
            if path == "-":
                _say(_rendered(kind, report))
            elif path:
                write_whole(path, _rendered(kind, report))
        except OSError as error:
            failed.append(f"--{kind} {path} cannot be written: {error.strerror}")
    if failed:
        raise OSError("; ".join(failed))


def _rendered(kind: str, report: dict[str, Any]) -> str:
    if kind == "junit":
        from .reports import junit

        return junit.render(report)
    import json

    return json.dumps(report, indent=1, allow_nan=False) + "\n"
