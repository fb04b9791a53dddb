"""A client of the service for the tests of a repository: in process, without a port."""

from typing import Any

from fastapi.testclient import TestClient

from ..contract import Model
from .app import Extend, create_app
from .auth import is_bearer_token
from .settings import Settings


def service_client(model: Model, settings: type[Settings], extend: Extend | None = None, **given: Any) -> TestClient:
    """Return a client of the service around ``model`` on the CPU; enter it with ``with``.

    Settings are not read from the environment: they are ``given``, or have their default; a required one has the first
    of its examples, else "1". Raises pydantic.ValidationError if that is invalid: give one. The client sends
    BearerToken's token.
    """
    values = {
        name: (field.examples or ["1"])[0] if field.is_required() else field.get_default(call_default_factory=True)
        for name, field in settings.model_fields.items()
    }
    app = create_app(model, settings(**values | {"device": "cpu"} | given), extend=extend)
    token = next((one.kwargs.get("token") for one in app.user_middleware if is_bearer_token(one.cls)), None)
    return TestClient(app, headers={"Authorization": f"Bearer {token}"} if token else {})
