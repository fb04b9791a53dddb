"""A client of the service for the tests of a repository: in process, without a port."""

import typing
from collections.abc import Callable
from typing import Any

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

    Settings are not read from the environment: they are ``given``, or have their default or a value for tests. Raises
    pydantic.ValidationError for a value for tests that is invalid: give one. The client sends BearerToken's token.
    """
    values = {name: value_for_tests(field) for name, field in settings.model_fields.items()}
    app = create_app(model, settings(**values | {"device": "cpu"} | given), extend=extend)
    token = next((one.kwargs.get("token") for one in app.user_middleware if is_bearer_token(one.cls)), None)
    return TestClient(app, headers={"Authorization": f"Bearer {token}"} if token else {})


def value_for_tests(field: FieldInfo) -> Any:
    """Return the default of a setting; for a required one the first of its examples, else one of its type."""
    if not field.is_required():
        return field.get_default(call_default_factory=True)
    if field.examples:
        return field.examples[0]
    kind: Any = field.annotation
    while arguments := typing.get_args(kind):  # of a union or a Literal
        kind = arguments[0]
    values = {bool: False, int: 1, float: 1.0, SecretStr: SecretStr("test")}
    return values.get(kind, "test") if isinstance(kind, type) else kind
