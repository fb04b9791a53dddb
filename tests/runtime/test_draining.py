"""How long answers may still take counts from the signal on, also where the loop hears of it late."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from types import ModuleType

import pytest
import uvicorn

from tests.runtime import standin_model

SECONDS, LATE = 5.0, 0.8  # SHUTDOWN_SECONDS, and for how long the loop is busy when the signal comes


def test_what_the_loop_does_first_is_taken_from_the_time_to_drain(
    serving: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, given = serving("server"), []
    settings = serving("settings").Settings(device="cpu", shutdown_seconds=SECONDS)
    server = module.Server(standin_model.Model(), settings, serving("hooks").Hooks())

    async def waits(self: uvicorn.Server, sockets: object = None) -> None:
        given.append(self.config.timeout_graceful_shutdown)

    monkeypatch.setattr(uvicorn.Server, "shutdown", waits)
    server.servers = []
    server.handle_exit(signal.SIGTERM, None)
    time.sleep(LATE)
    asyncio.run(server.shutdown())
    [left] = given
    assert 0 < left <= SECONDS - LATE - module.RESERVE_SECONDS
