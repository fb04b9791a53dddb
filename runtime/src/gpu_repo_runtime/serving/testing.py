"""A client of the service for the tests of a repository: in process, without a port."""

import types
import typing
from collections.abc import Callable
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from ..contract import Model
from .app import create_app
from .auth import is_bearer_token
from .service import Service
from .settings import Settings


def service_client(
    model: Model, settings: type[Settings], extend: Callable[[FastAPI, Service], Any] | None = None, **given: Any
) -> TestClient:
    """Return a client of the service around ``model`` on the CPU; enter it with ``with``.

    A required setting gets a value for tests unless ``given`` has one, and the client sends the token of BearerToken.
    Raises pydantic.ValidationError for a required setting whose test value is invalid: give it one.
    """
    required = {name: field for name, field in settings.model_fields.items() if field.is_required()}
    values = {name: value_for_tests(field) for name, field in required.items()}
    app = create_app(model, settings(**{"device": "cpu", **values, **given}), extend=extend)
    token = next((one.kwargs.get("token") for one in app.user_middleware if is_bearer_token(one.cls)), None)
    return TestClient(app, headers={"Authorization": f"Bearer {token}"} if token else {})


def value_for_tests(field: FieldInfo) -> Any:
    """Return a value for a required setting: the first of its examples, else one of its type."""
    if field.examples:
        return field.examples[0]
    kind = field.annotation
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) is Literal:
        return typing.get_args(kind)[0]
    return {bool: False, int: 1, float: 1.0, str: "test", SecretStr: SecretStr("test")}.get(kind, "test")  # type: ignore[arg-type]
