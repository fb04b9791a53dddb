"""The short way of plain requests: what takes too long, hangs up, is too much or comes when the service stops."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.runtime.standin_model import Model
from tests.runtime.wired import ASKED, Wired, post, wired


class Held(Model):
    """Holds every call until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.open, self.warm = threading.Event(), threading.Event(), False

    def predict(self, batch: list[str]) -> list[dict]:
        if "one" not in batch:  # the warm-up
            self.entered.set()
            assert self.open.wait(20)
        return super().predict(batch)


@asynccontextmanager
async def held(**settings: Any) -> AsyncIterator[tuple[Wired, asyncio.StreamReader, asyncio.StreamWriter]]:
    """Serve a model that has a request and holds it."""
    stand_in = Held()
    async with wired(stand_in, **settings) as service:
        reader, writer = await service.connect()
        writer.write(post({"texts": ["held"]}))
        await asyncio.to_thread(stand_in.entered.wait, 20)
        assert service.by_the_door == 1
        yield service, reader, writer
        stand_in.open.set()
        writer.close()


async def answered(reader: asyncio.StreamReader) -> tuple[int, bytes, dict[str, Any]]:
    """Return status, head and body of an answer."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    [length] = re.findall(rb"content-length: (\d+)", head)
    return int(head[9:12]), head, json.loads(await reader.readexactly(int(length)))


def test_what_takes_too_long_has_504_and_is_no_longer_held(lines: list[dict[str, Any]]) -> None:
    async def scenario() -> None:
        async with held(request_seconds=0.2) as (service, reader, _):
            status, _, body = await answered(reader)
            assert (status, body["code"]) == (504, "deadline_exceeded")
            assert not service.state.tasks
            assert not service.service.batcher.queue.calls

    asyncio.run(scenario())
    assert [line["status"] for line in lines] == [504]


def test_what_waits_for_a_client_who_has_gone_is_dropped(lines: list[dict[str, Any]]) -> None:
    async def scenario() -> None:
        async with held() as (service, _, first):
            _, second = await service.connect()
            second.write(post({"texts": ["a"] * 3}))
            while service.service.batcher.queue.count < 3:
                await asyncio.sleep(0.001)
            for writer in (first, second):
                writer.transport.abort()
            while len(lines) < 2:
                await asyncio.sleep(0.001)
            assert (service.service.batcher.queue.count, service.state.tasks) == (0, set())

    asyncio.run(asyncio.wait_for(scenario(), 20))
    assert [line["status"] for line in lines] == [499, 499]


def test_who_goes_with_many_requests_under_way_costs_no_other_client_its_answer() -> None:
    async def scenario() -> None:
        async with held() as (service, _, first):
            _, leaves = await service.connect()
            leaves.write(post({"texts": ["b"]}) + post({"texts": ["c"]}))
            reader, stays = await service.connect()
            while service.by_the_door < 2:
                await asyncio.sleep(0.001)
            stays.write(post({"texts": ["d"]}))
            while service.service.batcher.queue.count < 2:
                await asyncio.sleep(0.001)
            leaves.transport.abort()
            await asyncio.sleep(0.05)
            service.service.model.open.set()  # type: ignore[attr-defined]
            assert (await answered(reader))[0] == 200
            first.close(), stays.close()

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_a_full_queue_is_said(lines: list[dict[str, Any]]) -> None:
    async def scenario() -> None:
        async with held() as (service, *_):
            service.service.batcher.queue.count = service.service.settings.max_queue
            answer = await service.ask(post(ASKED))
            service.service.batcher.queue.count = 0
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"retry-after: " in answer

    asyncio.run(scenario())
    assert 503 in [line["status"] for line in lines]


def test_when_the_time_to_stop_is_over_who_waits_is_told() -> None:
    async def scenario() -> None:
        async with held() as (service, reader, _):
            assert len(service.state.tasks) == 1, "uvicorn would not wait for it"
            for task in service.state.tasks:
                task.cancel(msg="as uvicorn does")
            status, _, body = await answered(reader)
            assert (status, body["code"], service.service.unfinished) == (503, "not_ready", 1)

    asyncio.run(scenario())


def test_while_the_service_drains_each_answer_is_the_last_of_its_connection() -> None:
    async def scenario() -> None:
        async with held() as (service, reader, _):
            service.service.drain()
            service.service.model.open.set()  # type: ignore[attr-defined]
            status, head, _ = await answered(reader)
            assert (status, b"\r\nconnection: close\r\n" in head) == (200, True)
            assert await reader.read() == b""

    asyncio.run(scenario())


@pytest.mark.parametrize("door", [True, False])
def test_a_connection_is_closed_when_it_was_silent_for_long_and_not_before(door: bool) -> None:
    async def scenario() -> None:
        async with wired(Model(), door=door, keep_alive=0.4) as service:
            reader, writer = await service.connect()
            for _ in range(4):
                writer.write(post(ASKED))
                assert (await answered(reader))[0] == 200
                await asyncio.sleep(0.2)
            assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()

    asyncio.run(scenario())


def test_a_connection_has_one_timer_for_all_its_silences(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with wired(Model()) as service:
            later, calls = asyncio.get_running_loop().call_later, []
            monkeypatch.setattr(
                asyncio.get_running_loop(), "call_later", lambda *about: calls.append(about) or later(*about)
            )
            reader, writer = await service.connect()
            for _ in range(20):
                writer.write(post(ASKED))
                await answered(reader)
            assert [seconds for seconds, *_ in calls].count(75) == 1
            writer.close()

    asyncio.run(scenario())


def test_of_what_was_answered_a_waiting_connection_holds_nothing() -> None:
    async def scenario() -> None:
        async with held() as (service, reader, _):
            [call] = service.service.batcher.queue.calls
            exchange = call.done
            service.service.model.open.set()  # type: ignore[attr-defined]
            await answered(reader)
            assert (exchange.call, exchange.body, exchange.when_gone) == (None, b"", None)

    asyncio.run(scenario())
