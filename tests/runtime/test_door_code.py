"""The short way of plain requests around code of the owner: whatever it raises or keeps, both ways end alike."""

from __future__ import annotations

import asyncio
import decimal
import gc
import json
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any

import pytest
from gpu_repo_runtime.serving.errors import InvalidRequest
from gpu_repo_runtime.serving.histogram import Histogram
from prometheus_client import CollectorRegistry
from pydantic import AfterValidator, PlainSerializer

from tests.runtime.standin_model import Model
from tests.runtime.wired import post, wired

PREVIOUS: ContextVar[str] = ContextVar("PREVIOUS", default="")
SEEN: list[weakref.ref[Any]] = []


class Panic(BaseException):
    """As an extension written in Rust raises one."""


def panics_at(bad: str) -> Callable[[str], str]:
    """Return a validator that raises for one text."""

    def check(text: str) -> str:
        if text == bad:
            raise Panic(bad)
        return text

    return check


class Validated:
    """Has validators for its inputs and outputs, one of which panics."""

    examples = ("one",)

    def load(self, device: str) -> None: ...

    def predict(
        self, batch: list[Annotated[str, AfterValidator(panics_at("bad in"))]]
    ) -> list[Annotated[str, AfterValidator(panics_at("bad out"))]]:
        return list(batch)


class Refusing:
    """Answers one text with an error that it made by itself."""

    examples = ("one",)

    def load(self, device: str) -> None: ...

    def predict(self, batch: list[str]) -> list[str]:
        return [InvalidRequest("no", errors=[{"reason": "x"}]) if text == "bad" else text for text in batch]  # type: ignore[misc]


def remembered(text: str) -> str:
    """Return the text with the one that this context has seen before."""
    found, _ = f"{text} after {PREVIOUS.get()}", PREVIOUS.set(text)
    return found


class Remembering:
    """Keeps something in a context, as libraries for numbers and requests do."""

    examples = ("one",)

    def load(self, device: str) -> None: ...

    def predict(self, batch: list[Annotated[str, AfterValidator(remembered)]]) -> list[str]:
        return list(batch)


class Exact:
    """Answers with a number that is written as the context of the program says."""

    examples = ("one",)

    def load(self, device: str) -> None: ...

    def predict(
        self, batch: list[str]
    ) -> list[Annotated[decimal.Decimal, PlainSerializer(lambda number: str(+number), return_type=str)]]:
        return [decimal.Decimal("3.14159265") for _ in batch]


async def together(model: Any, texts: list[str], *, door: bool) -> list[tuple[int, Any]]:
    """Return status and predictions of requests that are sent at the same time."""
    async with wired(model, door=door, request_seconds=5) as service:

        async def one(text: str) -> tuple[int, Any]:
            answer = await service.ask(post({"instances": [text]}))
            if answer[9:12] != b"200":
                return int(answer[9:12]), None
            body, _ = json.JSONDecoder().raw_decode(answer.partition(b"\r\n\r\n")[2].decode())
            return 200, body["predictions"]

        found = await asyncio.wait_for(asyncio.gather(*map(one, texts)), 20)
        assert not service.state.tasks
        assert service.by_the_door == (len(texts) if door else 0)
    return found


@pytest.mark.parametrize("door", [True, False])
@pytest.mark.parametrize(
    ("model", "bad"), [(Validated, "bad in"), (Validated, "bad out"), (Refusing, "bad")], ids=lambda given: str(given)
)
def test_one_request_whose_code_raises_anything_costs_no_other_its_answer(model: Any, bad: str, door: bool) -> None:
    texts = ["a", bad, "b", "c"]
    found = asyncio.run(together(model(), texts, door=door))
    assert [status for status, _ in found] == [200, found[1][0], 200, 200]
    assert found[1][0] in (422, 500)
    assert [predictions for _, predictions in found if predictions] == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize("door", [True, False])
def test_each_request_has_a_context_of_its_own(door: bool) -> None:
    found = asyncio.run(together(Remembering(), ["a", "b", "c"], door=door))
    assert [predictions for _, predictions in found] == [[f"{text} after one"] for text in "abc"], "the example's"


@pytest.mark.parametrize("door", [True, False])
def test_the_programs_context_counts_where_answers_are_written(door: bool) -> None:
    with decimal.localcontext(prec=4):
        assert asyncio.run(together(Exact(), ["a"], door=door)) == [(200, ["3.142"])]


class Body(str):
    """A text that can be watched."""


def watched(text: str) -> Body:
    """Return the text as one that tells when it is gone."""
    body = Body(text)
    SEEN.append(weakref.ref(body))
    return body


class Watched:
    """Takes texts that can be watched."""

    examples = ("one",)

    def load(self, device: str) -> None: ...

    def predict(self, batch: list[Annotated[str, AfterValidator(watched)]]) -> list[str]:
        return list(batch)


@pytest.mark.parametrize("door", [True, False])
def test_a_refused_request_is_not_held_while_its_connection_is_open(door: bool) -> None:
    async def scenario() -> None:
        async with wired(Watched(), door=door) as service:
            reader, writer = await service.connect()
            service.service.batcher.queue.count = service.service.settings.max_queue
            writer.write(post({"instances": ["a", "b"]}))
            assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)).startswith(b"HTTP/1.1 503")
            service.service.batcher.queue.count = 0
            await asyncio.sleep(0.05)
            gc.collect()
            assert len(SEEN) >= 2
            assert [one() for one in SEEN[-2:]] == [None, None]
            writer.close()

    asyncio.run(scenario())


def test_no_two_metrics_have_one_name() -> None:
    registry = CollectorRegistry()
    Histogram("seconds", "of something", (1, 2), registry)
    with pytest.raises(ValueError, match="Duplicated"):
        Histogram("seconds", "of something", (1, 2), registry)


def test_the_stand_in_is_served_by_both_ways() -> None:
    found = [asyncio.run(together(Model(), ["a"], door=door)) for door in (True, False)]
    assert found[0] == found[1]
