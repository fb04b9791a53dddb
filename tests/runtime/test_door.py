"""The short way of plain requests: what goes in by it and what does not, and that nobody can tell the difference."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from typing import Any

import pytest

from tests.runtime.standin_model import Model
from tests.runtime.wired import ASKED, post, wired

PLAIN = {
    "texts": post(ASKED),
    "instances": post({"instances": ["one", "two", "three"], "parameters": None}),
    "in the V1 protocol": post({"instances": ["a"]}, path="/v1/models/tests:predict"),
    "a charset": post(ASKED, "content-type: Application/JSON; charset=utf-8"),
    "an id": post(ASKED, "x-request-id: from-the-client.1"),
    "an id that cannot be used": post(ASKED, "x-request-id: a b"),
    "other headers": post(ASKED, "accept: */*", "user-agent: test", "connection: keep-alive"),
    "an empty host": post(ASKED, "host:"),
    "not finite": post({"texts": ["nan"]}),
    "one after the other": post({"texts": ["a"]}) + post({"texts": ["b"]}) + post({"texts": ["c"]}),
}
NOT_PLAIN = {
    "no host": post(ASKED, "host:").replace(b"host:\r\n", b""),
    "two hosts": post(ASKED, "host: a", "host: b"),
    "no host of any kind": post(ASKED, "host: a b"),
    "a header twice": post(ASKED, "x-request-id: a", "x-request-id: b"),
    "compressed": post(ASKED, "content-encoding: gzip"),
    "as it is": post(ASKED, "content-encoding: identity"),
    "no type": post(ASKED, "content-type:"),
    "another type": post(ASKED, "content-type: text/plain"),
    "two types": post(ASKED, "content-type: application/json", "content-type: text/plain"),
    "in chunks": post(
        b"f\r\n" + json.dumps({"texts": ["a"]}).encode() + b"\r\n0\r\n\r\n", "transfer-encoding: chunked", length=False
    ),
    "an expectation": post(ASKED, "expect: 100-continue"),
    "an upgrade": post(ASKED, "upgrade: h2c", "connection: upgrade"),
    "the last one": post(ASKED, "connection: close"),
    "HTTP/1.0": post(ASKED, version="1.0"),
    "HTTP/1.0, kept": post(ASKED, "connection: keep-alive", version="1.0"),
    "no body": post(b""),
    "no length": post(b"", length=False),
    "a query": post(ASKED, path="/predict?a=b"),
    "a fragment": post(ASKED, path="/predict#a"),
    "an escaped path": post(ASKED, path="/predic%74"),
    "a whole address": post(ASKED, path="http://x/predict"),
    "another path": post(ASKED, path="/predict/"),
    "another method": post(ASKED).replace(b"POST", b"PUT"),
    "another method that has no body": b"GET /predict HTTP/1.1\r\nhost: x\r\n\r\n",
    "too large": post({"texts": ["a" * 3000]}),
}
WRONG = {
    "no JSON": post(b"{"),
    "a wrong field": post({"instances": [1]}),
    "an unknown field": post({"instances": ["a"], "secret": 1}),
    "a wrong text": post({"texts": [""]}),
    "a text that fails": post({"texts": ["a", "poison"]}),
    "an input that fails": post({"instances": ["poison"]}),
    "more than fit": post({"texts": ["a"] * 9}),
}


async def observed(asked: tuple[bytes, ...], lines: list[Any], *, door: bool) -> tuple[list[Any], int]:
    """Return all that can be seen of a request, and how often the door took one."""
    lines.clear()
    async with wired(Model(), door=door, max_texts=8, max_body_bytes=2000) as service:
        answer = await service.ask(*asked)
        answer = re.sub(rb'(x-request-id: |"request_id":")[0-9a-f]{24}', rb"\1made", answer)
        held = service.service.batcher.queue.depth, len(service.state.tasks)
    for thread in threading.enumerate():
        if thread.name == "model":  # which counts after it has answered
            thread.join(20)
    counts = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in service.service.metrics.registry.collect()
        for sample in family.samples
        if sample.name.startswith("service_") and sample.name.endswith(("_total", "_count"))
    }
    return [answer, sorted(lines, key=str), counts, held], service.by_the_door


@pytest.mark.parametrize(("asked", "goes_in"), [
    *[pytest.param((asked,), True, id=name) for name, asked in (PLAIN | WRONG).items()],
    *[pytest.param((asked,), False, id=name) for name, asked in NOT_PLAIN.items()],
    pytest.param((post(ASKED)[:-5], post(ASKED)[-5:]), False, id="in two pieces, the body cut"),
    pytest.param((post(ASKED)[:30], post(ASKED)[30:]), True, id="in two pieces, the head cut"),
    pytest.param((post(ASKED), post(ASKED)), True, id="two times"),
])  # fmt: skip
def test_nobody_can_tell_which_way_a_request_went(
    asked: tuple[bytes, ...], goes_in: bool, lines: list[dict[str, Any]]
) -> None:
    by_the_door, count = asyncio.run(observed(asked, lines, door=True))
    without, _ = asyncio.run(observed(asked, lines, door=False))
    assert by_the_door == without
    assert bool(count) == goes_in
