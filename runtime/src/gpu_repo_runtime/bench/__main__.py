"""Load test of the service: a table, a JSON file and a picture of latency against load."""

import argparse
import contextlib
import importlib
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvloop

from ..serving.api_key import NAMES, authorization
from .load import Row, Target
from .quality import QualityError, accuracy


@contextlib.contextmanager
def own_service() -> Iterator[str]:
    """Start the project's service on a free port, quiet, and stop it in the end."""
    package = next(Path("src").glob("*/model.py")).parent.name
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment = {**os.environ, "PORT": port, "LISTEN_HOST": "127.0.0.1", "LOG_LEVEL": "warning"}
    process = subprocess.Popen([sys.executable, "-m", "gpu_repo_runtime.serving", package], env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/readyz"):
                break
            if process.poll() is not None:
                sys.exit(f"bench: the service did not start (exit code {process.returncode}); what it said is above")
            time.sleep(0.1)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


async def measure(target: Target, clients: list[int], rates: list[str], seconds: float) -> list[Row]:
    """Run every load for `seconds`, one after the other, and print its line of the table."""
    print(f"{'loop':>7} {'load':>9} {'answered':>9} {'refused':>8} {'failed':>7} {'req/s':>8} ", end="")
    print(" ".join(f"{name:>8}" for name in ("p50 ms", "p90 ms", "p99 ms", "max ms")))
    await target.closed_loop(4, min(1.0, seconds))  # warm up
    rows = [_shown(await target.closed_loop(count, seconds)) for count in clients]
    best = max((row.rate for row in rows), default=0)
    for rate in rates:
        load = best * float(rate[:-1]) / 100 if rate.endswith("%") else float(rate)
        if load > 0:
            rows.append(_shown(await target.open_loop(round(load, 1), seconds)))
    return rows


def _shown(row: Row) -> Row:
    load = f"{row.load:.0f} {'cl.' if row.loop == 'closed' else '/s'}"
    print(f"{row.loop:>7} {load:>9} {row.answered:>9} {row.refused:>8} {row.failed:>7} {row.rate:>8.1f} ", end="")
    print(" ".join(f"{value:>8.2f}" for value in (row.p50, row.p90, row.p99, row.longest)), flush=True)
    return row


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN, which stands for the times of a load that got no answer."""
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}


def draw(rows: list[Row], path: Path) -> None:
    """Draw latency against load, one panel for each loop."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for panel, loop, label in zip(
        panels, ("closed", "open"), ("requests/s reached", "requests/s offered"), strict=True
    ):
        mine = [row for row in rows if row.loop == loop]
        loads = [row.rate if loop == "closed" else row.load for row in mine]
        for name in ("p50", "p90", "p99"):
            panel.plot(loads, [getattr(row, name) for row in mine], marker="o", label=name)
        for row, load in zip(mine, loads, strict=True):
            note = f"{row.load:.0f} clients" if loop == "closed" else f"{row.refused} refused" if row.refused else ""
            panel.annotate(note, (load, row.p50), fontsize=7, textcoords="offset points", xytext=(3, -10))
        panel.set(title=f"{loop} loop", xlabel=label, ylabel="latency (ms)", yscale="log")
        panel.grid(alpha=0.3)
        if mine:
            panel.legend()
    figure.savefig(path, dpi=110)


def list_of(text: str, form: str, example: str) -> list[str]:
    """Return the parts of a list with commas, none of an empty text. Raises ArgumentTypeError with the example."""
    parts = text.split(",") if text else []
    if not all(re.fullmatch(form, part) for part in parts):
        raise argparse.ArgumentTypeError(f"expected a list like {example}, got {text!r}")
    return parts


def client_numbers(text: str) -> list[int]:
    """Return the numbers of clients in a text such as 1,4,16."""
    return [int(part) for part in list_of(text, r"[1-9]\d*", "1,4,16")]


def rate_list(text: str) -> list[str]:
    """Return the rates in a text such as 100,80%: requests a second, or a share of the best rate of the closed loop."""
    return list_of(text, r"\d+(\.\d+)?%?", "100,80%")


def above_zero(text: str) -> float:
    """Return a number of seconds."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, for example 5; got {text!r}")
    return number


def header(text: str) -> tuple[str, str]:
    """Return name and value of a header."""
    name, colon, value = text.partition(":")
    if not (colon and re.fullmatch(r"[A-Za-z0-9-]+", name) and re.fullmatch(r"[ -~]+", value)):
        raise argparse.ArgumentTypeError("expected a header, for example 'X-Tenant: me'")
    return name.lower(), value.strip()


def address(text: str) -> str:
    """Return the address of a service without the slash at its end."""
    if not re.fullmatch(r"http://[^/]+/?", text):
        raise argparse.ArgumentTypeError(f"expected an address, for example http://localhost:8000; got {text!r}")
    return text.rstrip("/")


def main() -> None:
    """Read the command line, measure, print, write."""
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("--url", type=address)
    parser.add_argument("--clients", type=client_numbers, default="1,4,16,64")
    parser.add_argument("--rates", type=rate_list, default="50%,80%,95%,120%")
    parser.add_argument("--seconds", type=above_zero, default=5)
    parser.add_argument("--header", type=header, action="append", default=[], metavar="NAME: VALUE")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--evaluate", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.evaluate and options.url:
        parser.error("--evaluate loads the model of this project: leave --url out")
    try:
        if options.evaluate:
            count, right = accuracy(own_model(), options.evaluate, os.environ.get("DEVICE") or "auto")
            print(f"right: {right:.1%} of {count} inputs")
    except QualityError as error:
        sys.exit(f"bench: {error}")
    try:
        about, rows = run(options)
    except (OSError, KeyError, ValueError) as error:
        asked = options.url or "the service"
        hint = f"; set {NAMES[0]} to the key that it requires" if getattr(error, "code", 0) in (401, 403) else ""
        sys.exit(f"bench: {asked} does not answer as this service does: {type(error).__name__}: {error}{hint}")
    try:
        write(about, rows, options.out)
    except OSError as error:
        sys.exit(f"bench: {options.out} cannot be written: {error}")
    if failed := sum(row.failed for row in rows):
        sys.exit(f"bench: {failed} requests failed: their status was neither 200 nor 503, or they had no answer")


def run(options: argparse.Namespace) -> tuple[dict[str, Any], list[Row]]:
    """Measure, and ask the service what it is. Raises OSError, KeyError or ValueError where it does not answer well."""
    with contextlib.nullcontext(options.url) if options.url else own_service() as url:
        target = Target(url, headers={**authorization(), **dict(options.header)})
        rows = uvloop.run(measure(target, options.clients, options.rates, options.seconds))
        with urllib.request.urlopen(urllib.request.Request(f"{url}/livez", headers=target.headers)) as answer:
            return json.load(answer), rows


def own_model() -> Any:
    """Return the project's model, not loaded yet."""
    sys.path.insert(0, "src")
    package = next(Path("src").glob("*/model.py")).parent.name
    return importlib.import_module(f"{package}.model").Model()


def write(about: dict[str, Any], rows: list[Row], out: Path) -> None:
    """Write numbers and picture. Raises OSError."""
    out.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"service": about, "rows": [_finite(asdict(row)) for row in rows]}
    (out / "bench.json").write_text(json.dumps(report, indent=1, allow_nan=False))
    draw(rows, out / "bench.png")
    print(f"bench: wrote {out / 'bench.json'} and {out / 'bench.png'}")


if __name__ == "__main__":
    main()
