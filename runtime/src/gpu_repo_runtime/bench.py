"""Load test of the service: a table of throughput and latency, and the same numbers as JSON. For scripts/bench.

Each client sends its next request when it has the answer to the one before (a closed loop).
"""

import argparse
import asyncio
import contextlib
import json
import math
import re
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvloop

from .client import UnexpectedAnswer, ask, authorization, examples, hint, started

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)")
ANSWER_S = 60
COLUMNS = "clients  answered  refused  failed     req/s   p50 ms   p90 ms   p99 ms   max ms"


@dataclass
class Row:
    """What came of a number of clients; requests a second and milliseconds."""

    clients: int
    seconds: float
    answered: int
    refused: int
    failed: int
    rate: float
    p50: float
    p90: float
    p99: float
    longest: float
    statuses: dict[int, int]  # how many answers had it; 0 without an answer

    def __str__(self) -> str:
        times = " ".join(f"{value:8.2f}" for value in (self.p50, self.p90, self.p99, self.longest))
        counts = f"{self.clients:7} {self.answered:9} {self.refused:8} {self.failed:7}"
        return f"{counts} {self.rate:9.1f} {times}"


class Connection:
    """A connection that is kept and carries one request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> int:
        """Send the bytes of a request and return the status of the answer, 0 without an answer."""
        try:
            async with asyncio.timeout(ANSWER_S):
                self._streams = self._streams or await asyncio.open_connection(*self._address)
                reader, writer = self._streams
                writer.write(request)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = LENGTH.search(head)
                if length is None:
                    raise ConnectionError("an answer without a length")
                await reader.readexactly(int(length[1]))
        except (OSError, EOFError, TimeoutError):
            self.close()
            return 0
        if b"\r\nconnection: close" in head:
            self.close()
        return int(head[9:12])  # HTTP/1.1 200 OK

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._streams:
            self._streams[1].close()
        self._streams = None


class Target:
    """A service and the inputs that are sent to it, by default its examples. Raises UnexpectedAnswer."""

    def __init__(self, url: str, instances: list[Any] | None = None) -> None:
        parts = urlsplit(url)
        self.url, self.host, self.port = url, parts.hostname or "localhost", parts.port or 80
        self.instances = instances or next(iter(examples(url).values()))

    def request(self, instances: list[Any]) -> bytes:
        """Return the bytes of a request for the inputs."""
        body = json.dumps({"instances": instances}).encode()
        head = f"POST /predict HTTP/1.1\r\nhost: {self.host}\r\ncontent-type: application/json\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in authorization().items())
        return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body

    async def load(self, clients: int, seconds: float) -> Row:
        """Let clients send requests at the same time; return what came of them."""
        answers, started = list[tuple[int, float]](), time.perf_counter()

        async def client(turn: int) -> None:
            connection = Connection(self.host, self.port)
            while (now := time.perf_counter()) < started + seconds:
                status = await connection.ask(self.request([self.instances[turn % len(self.instances)]]))
                answers.append((status, time.perf_counter() - now))
                turn += 1
            connection.close()

        await asyncio.gather(*map(client, range(clients)))
        return summed(clients, time.perf_counter() - started, answers)


def summed(clients: int, seconds: float, answers: list[tuple[int, float]]) -> Row:
    """Return what came of a load, from the status and the seconds of each request."""
    times = sorted(took for status, took in answers if status == 200) or [math.nan]
    p50, p90, p99 = (round(times[int(len(times) * share)] * 1e3, 2) for share in (0.5, 0.9, 0.99))
    statuses = Counter(status for status, _ in answers)
    answered, refused = statuses[200], statuses[503]
    failed, rate = len(answers) - answered - refused, round(answered / seconds, 1)
    longest = round(times[-1] * 1e3, 2)
    return Row(clients, round(seconds, 2), answered, refused, failed, rate, p50, p90, p99, longest, dict(statuses))


def own_service() -> contextlib.AbstractContextManager[str]:
    """Start the project's service, quiet, and stop it in the end."""
    package = next(Path("src").glob("*/model.py")).parent.name
    return started(["gpu_repo_runtime.serving", package], math.inf)


async def measure(target: Target, clients: list[int], seconds: float) -> list[Row]:
    """Run every load, one after the other, and print its line of the table."""
    print(COLUMNS)
    await target.load(4, min(1.0, seconds))  # warm up
    rows = []
    for count in clients:
        rows.append(await target.load(count, seconds))
        print(rows[-1], flush=True)
    return rows


def counts(text: str) -> list[int]:
    """Return the numbers in a text such as 1,4,16. Raises ValueError."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Read the command line, measure, print, write."""
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("--url", default="", help="http://HOST:PORT")
    parser.add_argument("--clients", type=counts, default="1,4,16,64")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    options.url = options.url.rstrip("/")
    if min(options.clients) < 1 or not 0 < options.seconds < math.inf:
        parser.error("expected clients for example 1,4,16 and a number of seconds above 0")
    if options.url and not re.fullmatch(r"http://[^/]+", options.url):
        parser.error(f"--url {options.url}: expected an address such as http://localhost:8000")
    try:
        with contextlib.nullcontext(options.url) if options.url else own_service() as url:
            rows = uvloop.run(measure(Target(url), options.clients, options.seconds))
            status, about = ask(f"{url}/livez")
    except UnexpectedAnswer as error:
        sys.exit(f"bench: {error}")
    if status != 200:
        sys.exit(f"bench: GET {url}/livez: {status or 'no answer,'} {about}{hint(status)}")
    # JSON has no NaN, which stands for the times of a load that got no answer.
    shown = [{name: None if value != value else value for name, value in asdict(row).items()} for row in rows]
    report = options.out / "bench.json"
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        report.write_text(json.dumps({"service": about, "rows": shown}, indent=1), encoding="utf-8")
    except OSError as error:
        sys.exit(f"bench: {options.out} cannot be written: {error}")
    print(f"bench: wrote {report}")
    failed = Counter[int]()
    for row in rows:
        failed.update({status: count for status, count in row.statuses.items() if status not in (200, 503)})
    if failed:
        status = failed.most_common(1)[0][0]
        how = f"status {status}{hint(status)}" if status else "no answer"
        sys.exit(f"bench: {failed.total()} requests failed, most of them with {how}")


if __name__ == "__main__":
    main()
