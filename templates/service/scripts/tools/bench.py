"""Load test of the service in closed and open loop: a table, a JSON file and a picture of latency against load.

In a closed loop slow answers slow the clients down, so it shows the highest throughput. In an open loop requests
arrive whether or not the service keeps up, as they do in life, and a request's time counts from when it was due.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httptools
import uvloop

OPEN_CONNECTIONS = 512  # at once, in the open loop


@dataclass
class Row:
    """One load and what came of it; seconds, requests a second and milliseconds."""

    loop: str
    load: float
    seconds: float
    answered: int
    refused: int
    failed: int
    rate: float
    p50: float
    p90: float
    p99: float
    longest: float


class Connection(asyncio.Protocol):
    """One kept connection that carries one request at a time."""

    def __init__(self) -> None:
        self.done: asyncio.Future[tuple[int, bytes]] | None = None
        self.headers: dict[bytes, bytes] = {}
        self.closed = True

    async def open(self, host: str, port: int) -> "Connection":
        """Connect. Raises OSError."""
        self.transport, _ = await asyncio.get_running_loop().create_connection(lambda: self, host, port)
        self.closed = False
        return self

    def send(self, request: bytes) -> "asyncio.Future[tuple[int, bytes]]":
        """Send the bytes of a request; the future gives status and body, or raises ConnectionError."""
        self.done = asyncio.get_running_loop().create_future()
        self.parser = httptools.HttpResponseParser(self)
        self.headers, self._body = {}, b""
        self.transport.write(request)
        return self.done

    def data_received(self, data: bytes) -> None:
        """Bytes of the answer."""
        self.parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header of the answer."""
        self.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        """A piece of the answer's body."""
        self._body += body

    def on_message_complete(self) -> None:
        """The whole answer is here."""
        if self.headers.get(b"connection") == b"close":
            self.closed = True
        if self.done and not self.done.done():
            self.done.set_result((self.parser.get_status_code(), self._body))

    def connection_lost(self, error: Exception | None) -> None:
        """The server closed the connection."""
        self.closed = True
        if self.done and not self.done.done():
            self.done.set_exception(error or ConnectionResetError("closed without an answer"))


class Tally:
    """Counts answers and keeps their times (seconds)."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.times: list[float] = []

    def add(self, status: int, seconds: float) -> None:
        """Count one answer; status 0 is none at all."""
        self.statuses[status] += 1
        if status == 200:
            self.times.append(seconds)

    def row(self, loop: str, load: float, seconds: float) -> Row:
        """Sum up."""
        times = sorted(self.times) or [float("nan")]
        p50, p90, p99 = (round(times[int(len(times) * share)] * 1e3, 2) for share in (0.5, 0.9, 0.99))
        answered, refused = self.statuses[200], self.statuses[503]
        failed = self.statuses.total() - answered - refused
        rate = round(answered / seconds, 1)
        return Row(
            loop, load, round(seconds, 2), answered, refused, failed, rate, p50, p90, p99, round(times[-1] * 1e3, 2)
        )


class Target:
    """A service and the request that is sent to it."""

    def __init__(self, url: str, texts: list[str] | None = None) -> None:
        parts = urlsplit(url)
        self.url, self.host, self.port = url, parts.hostname or "localhost", parts.port or 80
        self.texts = texts or self._examples()

    def request(self, texts: list[str]) -> bytes:
        """The bytes of a request for the texts."""
        body = json.dumps({"texts": texts}).encode()
        head = f"POST /predict HTTP/1.1\r\nhost: {self.host}\r\ncontent-type: application/json\r\n"
        return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body

    async def closed_loop(self, clients: int, seconds: float) -> Row:
        """Let `clients` clients send one request after the other."""
        tally, started = Tally(), time.perf_counter()

        async def client(number: int) -> None:
            connection, turn = Connection(), number
            while (now := time.perf_counter()) < started + seconds:
                request, turn = self.request([self.texts[turn % len(self.texts)]]), turn + 1
                tally.add(await self._ask(connection, request), time.perf_counter() - now)

        await asyncio.gather(*map(client, range(clients)))
        return tally.row("closed", clients, time.perf_counter() - started)

    async def open_loop(self, rate: float, seconds: float) -> Row:
        """Let requests arrive at random, `rate` a second on average."""
        tally, started, due, tasks = Tally(), time.perf_counter(), 0.0, set()
        free: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
        for _ in range(OPEN_CONNECTIONS):
            free.put_nowait(Connection())

        async def one(text: str, due: float) -> None:
            connection = await free.get()
            status = await self._ask(connection, self.request([text]))
            tally.add(status, time.perf_counter() - started - due)
            free.put_nowait(connection)

        while (due := due + random.expovariate(rate)) < seconds:
            if (ahead := due - (time.perf_counter() - started)) > 0:
                await asyncio.sleep(ahead)
            task = asyncio.create_task(one(random.choice(self.texts), due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
        return tally.row("open", rate, time.perf_counter() - started)

    async def _ask(self, connection: Connection, request: bytes) -> int:
        try:
            if connection.closed:
                await connection.open(self.host, self.port)
            status, _ = await asyncio.wait_for(connection.send(request), 60)
        except (OSError, TimeoutError):
            return 0
        return status

    def _examples(self) -> list[str]:
        with urllib.request.urlopen(f"{self.url}/openapi.json") as answer:
            schema = json.load(answer)["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"][
                "schema"
            ]
        return schema["properties"]["texts"]["examples"][0]


@contextlib.contextmanager
def running(url: str) -> Iterator[str]:
    """Hand on the address of a service that answers; else end with the reason."""
    try:
        urllib.request.urlopen(f"{url}/readyz").close()
    except (OSError, ValueError) as error:
        sys.exit(f"bench: {url} is not ready ({error}): start the service, or leave --url out and bench starts its own")
    yield url


@contextlib.contextmanager
def own_service() -> Iterator[str]:
    """Start the project's service on a free port, quiet, and stop it in the end."""
    package = next(Path("src").glob("*/serving")).parent.name
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment = {**os.environ, "PORT": port, "LISTEN_HOST": "127.0.0.1", "LOG_LEVEL": "warning"}
    process = subprocess.Popen([sys.executable, "-m", f"{package}.serving"], env=environment)
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


def counts(text: str) -> list[int]:
    """Return the numbers of clients in `1,4,16`."""
    numbers = [int(count) for count in text.split(",") if count.strip().isdecimal()]
    if not numbers or len(numbers) < len(text.split(",")) or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers from 1, for example 1,4,16")
    return numbers


def loads(text: str) -> list[str]:
    """Return the rates in `50%,80%` or `100,200`; an empty text has none."""
    rates = [rate.strip() for rate in text.split(",") if rate.strip()]
    try:
        fair = all(float(rate.removesuffix("%")) > 0 for rate in rates)
    except ValueError:
        fair = False
    if not fair:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of rates above 0, for example 50%,80% or 100,200")
    return rates


def main() -> None:
    """Read the command line, measure, print, write."""
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("--url")
    parser.add_argument("--clients", type=counts, default="1,4,16,64")
    parser.add_argument("--rates", type=loads, default="50%,80%,95%,120%")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    with running(options.url.rstrip("/")) if options.url else own_service() as url:
        rows = uvloop.run(measure(Target(url), options.clients, options.rates, options.seconds))
        with urllib.request.urlopen(f"{url}/livez") as answer:
            about: dict[str, Any] = json.load(answer)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.json").write_text(
        json.dumps({"service": about, "rows": [asdict(row) for row in rows]}, indent=1)
    )
    draw(rows, options.out / "bench.png")
    print(f"bench: {options.out / 'bench.json'} and {options.out / 'bench.png'} hold the same")


if __name__ == "__main__":
    main()
