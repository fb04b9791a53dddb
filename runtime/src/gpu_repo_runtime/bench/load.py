"""Requests to a running service, in closed and open loop, and what came of them.

In a closed loop slow answers slow the clients down, so it shows the highest throughput. In an open loop requests
arrive whether or not the service keeps up, as they do in life, and a request's time counts from when it was due.
"""

import asyncio
import json
import random
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httptools

from ..serving.api_key import authorization

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

    def connection_lost(self, exc: Exception | None) -> None:
        """The server closed the connection."""
        self.closed = True
        if self.done and not self.done.done():
            self.done.set_exception(exc or ConnectionResetError("closed without an answer"))


def summed(loop: str, load: float, seconds: float, answers: list[tuple[int, float]]) -> Row:
    """Return what came of a load: a status and seconds for each request; status 0 is no answer at all."""
    times = sorted(took for status, took in answers if status == 200) or [float("nan")]
    points = (times[int(len(times) * share)] for share in (0.5, 0.9, 0.99))
    p50, p90, p99, longest = (round(one * 1e3, 2) for one in (*points, times[-1]))
    statuses = Counter(status for status, _ in answers)
    answered, refused = statuses[200], statuses[503]
    failed = len(answers) - answered - refused
    rate = round(answered / seconds, 1)
    return Row(loop, load, round(seconds, 2), answered, refused, failed, rate, p50, p90, p99, longest)


class Target:
    """A service and the request that is sent to it."""

    def __init__(self, url: str, instances: list[Any] | None = None, headers: dict[str, str] | None = None) -> None:
        """``headers`` are sent with each request, by default the key of the environment."""
        parts = urlsplit(url)
        self.url, self.host, self.port = url, parts.hostname or "localhost", parts.port or 80
        self.headers = authorization() if headers is None else headers
        self.instances = instances or self._examples()

    def request(self, instances: list[Any]) -> bytes:
        """The bytes of a request for the inputs."""
        body = json.dumps({"instances": instances}).encode()
        head = f"POST /predict HTTP/1.1\r\nhost: {self.host}\r\ncontent-type: application/json\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body

    async def closed_loop(self, clients: int, seconds: float) -> Row:
        """Let `clients` clients send one request after the other."""
        answers, started = list[tuple[int, float]](), time.perf_counter()

        async def client(number: int) -> None:
            connection, turn = Connection(), number
            while (now := time.perf_counter()) < started + seconds:
                request, turn = self.request([self.instances[turn % len(self.instances)]]), turn + 1
                answers.append((await self._ask(connection, request), time.perf_counter() - now))

        await asyncio.gather(*map(client, range(clients)))
        return summed("closed", clients, time.perf_counter() - started, answers)

    async def open_loop(self, rate: float, seconds: float) -> Row:
        """Let requests arrive at random, `rate` a second on average."""
        answers, started, due, tasks = list[tuple[int, float]](), time.perf_counter(), 0.0, set()
        free: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
        for _ in range(OPEN_CONNECTIONS):
            free.put_nowait(Connection())

        async def one(instance: Any, due: float) -> None:
            connection = await free.get()
            status = await self._ask(connection, self.request([instance]))
            answers.append((status, time.perf_counter() - started - due))
            free.put_nowait(connection)

        while (due := due + random.expovariate(rate)) < seconds:
            if (ahead := due - (time.perf_counter() - started)) > 0:
                await asyncio.sleep(ahead)
            task = asyncio.create_task(one(random.choice(self.instances), due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
        return summed("open", rate, time.perf_counter() - started, answers)

    async def _ask(self, connection: Connection, request: bytes) -> int:
        try:
            if connection.closed:
                await connection.open(self.host, self.port)
            status, _ = await asyncio.wait_for(connection.send(request), 60)
        except (OSError, TimeoutError):
            return 0
        return status

    def _examples(self) -> list[Any]:
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/openapi.json", headers=self.headers)) as answer:
            content = json.load(answer)["paths"]["/predict"]["post"]["requestBody"]["content"]
        [instances] = content["application/json"]["example"].values()  # named instances, or texts as in version 0.2
        return list(instances)
