"""What an owner's own routes have in common with those of the service: how a request that is not valid is answered."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError

from ..owntypes import names_in
from .errors import InvalidRequest
from .middleware import problem
from .schemas import reason_of

PLACES = {"body", "query", "path", "header", "cookie"}


class OwnRoutes:
    """The routes of an application that FastAPI checks the requests of."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._names: set[str] | None = None

    async def invalid(self, request: Request, error: Exception) -> Response:
        """Answer a request that is not valid as /predict does: with nothing of what it said."""
        assert isinstance(error, RequestValidationError)
        if self._names is None:
            self._names = set(PLACES)
            with suppress(Exception):  # a type of the owner that has no schema
                self._names.update(_names(self._app.openapi()))
        named = [{"field": self._place(fault), "reason": reason_of(fault)} for fault in error.errors()[:20]]
        detail = "; ".join(f"{one['field']}: {one['reason']}" for one in named[:3])
        return problem(InvalidRequest(detail, errors=named), request.scope)

    def _place(self, fault: Any) -> str:
        assert self._names
        return ".".join(
            "*" if isinstance(part, str) and part not in self._names else str(part) for part in fault["loc"]
        )


def _names(document: dict[str, Any]) -> Iterator[str]:
    yield from names_in(document)
    for path in document.get("paths", {}).values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                yield parameter.get("name", "")
