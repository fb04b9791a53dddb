"""An application behind a real server, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from gpu_repo_runtime.serving.app import create_app
from gpu_repo_runtime.serving.settings import Settings
from gpu_repo_runtime.serving.upgrade import ChooseParser


@asynccontextmanager
async def served(model: Any, extend: Callable[..., Any] | None = None, **settings: Any) -> AsyncIterator[int]:
    """Serve a model, and give the port."""
    app = create_app(model, Settings(device="cpu", **settings), extend=extend)
    config = uvicorn.Config(app, "127.0.0.1", 0, http=ChooseParser, log_config=None, access_log=False)
    server, listener = uvicorn.Server(config), config.bind_socket()
    task = asyncio.create_task(server.serve([listener]))
    while not server.started and not task.done():
        await asyncio.sleep(0.01)
    yield listener.getsockname()[1]
    server.should_exit = True
    await task
