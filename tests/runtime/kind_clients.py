"""Clients of a service for each kind of input, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from fastapi.testclient import TestClient
from gpu_repo_runtime.serving.app import create_app
from gpu_repo_runtime.serving.settings import Settings

from tests.runtime.kinds import KINDS, model
from tests.runtime.standin_model import Model as OldModel


def serve(source: Any, **settings: Any) -> TestClient:
    """Return a client of a service, around a model or the source of one."""
    one = model(source) if isinstance(source, str) else source
    return TestClient(create_app(one, Settings(device="cpu", **settings)), raise_server_exceptions=False)


@contextmanager
def clients_of_kinds() -> Iterator[dict[str, TestClient]]:
    """Give a client of a service for each kind, and of one for texts."""
    found = {kind: serve(source, max_texts=8, max_body_bytes=5000) for kind, source in KINDS.items()}
    found["text"] = serve(OldModel(), model_name="standin")
    with ExitStack() as stack:
        for client in found.values():
            stack.enter_context(client)
        yield found
