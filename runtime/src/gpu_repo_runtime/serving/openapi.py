"""The OpenAPI document: every body typed by the model's own ``Input``, ``Output`` and ``Parameters``."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from .auth import is_bearer_token
from .schemas import Problem
from .service import Service

PROBLEMS = {
    400: "The request asks for another protocol, or its tensors are not valid",
    408: "The body did not arrive in time",
    413: "The body is larger than MAX_BODY_BYTES",
    415: "The body is not declared as JSON",
    422: "The body is not valid; errors names the fields",
    500: "The model failed on an input",
    503: "Busy, starting, stopping or without its device; Retry-After says when to come back",
    504: "No answer within REQUEST_SECONDS",
}


REFERENCES = "#/components/schemas/{model}"


class Documents:
    """Schemas of the bodies that FastAPI does not parse."""

    def __init__(self, service: Service) -> None:
        request = service.request
        bodies = [model for model in (request.model, request.texts_model) if model]
        answers: list[type[BaseModel]] = [request.response, Problem]
        refs, document = models_json_schema(
            [*((model, "validation") for model in bodies), *((a, "serialization") for a in answers)],
            ref_template=REFERENCES,
        )
        self._schemas: dict[str, Any] = document["$defs"]
        self._problem = refs[Problem, "serialization"]
        taken = [refs[model, "validation"] for model in bodies]
        content: dict[str, Any] = {
            "application/json": {
                "schema": taken[0] if len(taken) == 1 else {"oneOf": taken},
                "example": request.example,
            }
        }
        if service.interface.blob:
            # image/... is taken too; generators of clients stop at a media type that is a pattern.
            content["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
        self._body = {"requestBody": {"required": True, "content": content}}
        answer = {"application/json": {"schema": refs[request.response, "serialization"]}}
        self._good = {"description": "The predictions", "content": answer}

    def add(self, request: type[BaseModel], answer: type[BaseModel]) -> None:
        """Add the schemas of another protocol."""
        models: Any = [(request, "validation"), (answer, "serialization")]
        self._schemas |= models_json_schema(models, ref_template=REFERENCES)[1]["$defs"]

    def problems(self, media_type: str) -> dict[int | str, dict[str, Any]]:
        """Return the errors for OpenAPI; each protocol has its own media type for them."""
        content = {media_type: {"schema": self._problem}}
        return {status: {"description": text, "content": content} for status, text in PROBLEMS.items()}

    def predict(self, media_type: str) -> dict[str, Any]:
        """Return the OpenAPI description of a path of predictions, whose errors have a media type."""
        return {"openapi_extra": self._body, "responses": {200: self._good, **self.problems(media_type)}}

    def into(self, app: FastAPI) -> None:
        """Add the schemas to the application's document, and the key if the application requires one."""
        make: Callable[[], dict[str, Any]] = app.openapi

        def openapi() -> dict[str, Any]:
            if not app.openapi_schema:
                document = make()
                components = document.setdefault("components", {})
                components["schemas"] = self._schemas | components.get("schemas", {})
                if any(is_bearer_token(one.cls) for one in app.user_middleware):
                    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
                    document["security"] = [{"key": []}]
            assert app.openapi_schema
            return app.openapi_schema

        app.openapi = openapi  # type: ignore[method-assign]
