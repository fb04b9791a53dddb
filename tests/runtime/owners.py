"""A service of numbers with what an owner adds: a setting, a middleware, a route."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient
from gpu_repo_runtime.serving import settings as settings_module
from gpu_repo_runtime.serving.app import create_app
from gpu_repo_runtime.serving.auth import BearerToken
from gpu_repo_runtime.serving.service import Service
from pydantic import SecretStr

from tests.runtime.kinds import KINDS, model

Extend = Callable[[FastAPI, Service], Any]


ASKED = {"instances": [[1.0, 1.0]]}


class Settings(settings_module.Settings):
    api_token: SecretStr = SecretStr("open sesame")


def client_of(extend: Extend | None, **settings: Any) -> TestClient:
    app = create_app(model(KINDS["row"]), Settings(device="cpu", **settings), extend=extend)
    return TestClient(app, raise_server_exceptions=False)


def with_token(app: FastAPI, service: Service) -> None:
    """As the page about the service shows it."""
    assert isinstance(service.settings, Settings)
    app.add_middleware(BearerToken, token=service.settings.api_token.get_secret_value())

    @app.get("/own")
    async def own() -> str:
        return "own"
