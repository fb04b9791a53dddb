"""Load test of the service: a table, and the same numbers as JSON."""

import argparse
import contextlib
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


def clients(text: str) -> list[int]:
    """Return the numbers of clients in a text such as 1,4,16. Raises ValueError."""
    return [int(part) for part in text.split(",")]


def rates(text: str) -> list[str]:
    """Return the rates in a text such as 100,80%: requests a second, or a share of the best rate of the closed loop."""
    found = text.split(",") if text else []
    if not all(re.fullmatch(r"\d+(\.\d+)?%?", one) for one in found):
        raise ValueError(text)
    return found


def header(text: str) -> tuple[str, str]:
    """Return name and value of a header such as 'X-Tenant: me'. Raises ValueError."""
    found = re.fullmatch(r"([A-Za-z0-9-]+):([ -~]+)", text)
    if not found:
        raise ValueError(text)
    return found[1].lower(), found[2].strip()


def main() -> None:
    """Read the command line, measure, print, write."""
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("--url", default="", help="http://HOST:PORT")
    parser.add_argument("--clients", type=clients, default="1,4,16,64")
    parser.add_argument("--rates", type=rates, default="50%,80%,95%,120%")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--header", type=header, action="append", default=[], metavar="NAME: VALUE")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    options.url = options.url.rstrip("/")
    if min(options.clients) < 1 or not 0 < options.seconds < math.inf:
        parser.error("expected clients for example 1,4,16 and a number of seconds above 0")
    if options.url and not re.fullmatch(r"http://[^/]+", options.url):
        parser.error(f"--url {options.url}: expected an address such as http://localhost:8000")
    try:
        about, rows = run(options)
    except (OSError, KeyError, ValueError) as error:
        asked = options.url or "the service"
        hint = f"; set {NAMES[0]} to the key that it requires" if getattr(error, "code", 0) in (401, 403) else ""
        sys.exit(f"bench: {asked} does not answer as this service does: {type(error).__name__}: {error}{hint}")
    report = options.out / "bench.json"
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        content = {"service": about, "rows": [_json(row) for row in rows]}
        report.write_text(json.dumps(content, indent=1, allow_nan=False), encoding="utf-8")
    except OSError as error:
        sys.exit(f"bench: {options.out} cannot be written: {error}")
    print(f"bench: wrote {report}")
    if failed := sum(row.failed for row in rows):
        sys.exit(f"bench: {failed} requests failed: their status was neither 200 nor 503, or they had no answer")


def run(options: argparse.Namespace) -> tuple[dict[str, Any], list[Row]]:
    """Measure, and ask the service what it is. Raises OSError, KeyError or ValueError where it does not answer well."""
    with contextlib.nullcontext(options.url) if options.url else own_service() as url:
        target = Target(url, headers={**authorization(), **dict(options.header)})
        rows = uvloop.run(measure(target, options.clients, options.rates, options.seconds))
        with urllib.request.urlopen(urllib.request.Request(f"{url}/livez", headers=target.headers)) as answer:
            return json.load(answer), rows


def _json(row: Row) -> dict[str, Any]:
    """JSON has no NaN, which stands for the times of a load that got no answer."""
    values = asdict(row).items()
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in values}


if __name__ == "__main__":
    main()
