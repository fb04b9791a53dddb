"""Predictions as functions from body to body, with their paths: ``/predict``, Vertex AI's, and the protocols V1 and V2.

V1 is TensorFlow Serving's REST interface and KServe's: ``/v1/models/NAME`` and ``/v1/models/NAME:predict``.
"""

from collections.abc import Callable, Hashable
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

from fastapi import FastAPI
from starlette.types import Receive, Scope

from .errors import ServiceError
from .middleware import Answer
from .schemas import PLAIN, PROBLEM, Asked
from .service import Service

T = TypeVar("T")
STATES = {"starting": "LOADING", "ready": "AVAILABLE", "draining": "UNLOADING", "failed": "END"}
VERSION = "1"  # one model, one version: the protocols count them


class Predictions:
    """Reads requests, waits for their outputs and writes them."""

    def __init__(self, service: Service) -> None:
        self._service, self._request = service, service.request
        self._has_blob, self._write = service.interface.blob is not None, service.interface.json
        self._client_header = service.settings.client_header.lower().encode()

    async def answer(self, scope: Scope, receive: Receive, body: bytes, *, any_type: bool = False) -> bytes:
        """Return the body of the answer. Raises ServiceError.

        ``any_type``: curl -d, as the pages of the protocol V1 show it, declares a form.
        """
        media_type = dict(scope["headers"]).get(b"content-type", b"").partition(b";")[0].strip().lower()
        is_blob = self._has_blob and (media_type.startswith(b"image/") or media_type == b"application/octet-stream")
        if media_type != b"application/json" and not is_blob and not any_type:
            image = ", or image/... with one input as the body" if self._has_blob else ""
            raise ServiceError(f"send the header Content-Type: application/json{image}", "not_json")
        asked = self._request.read_blob(body) if is_blob else self._request.read(body)
        return b'{"predictions":%b}' % await self.outputs(asked, scope, receive, self._write)

    async def outputs(self, asked: Asked, scope: Scope, receive: Receive, write: Callable[[list[Any]], T]) -> T:
        """Return the outputs of a request as ``write`` writes them. Raises ServiceError.

        The request's log line gets the size of its batch and its time in the queue.
        """
        call = await self._service.call(asked.inputs, asked.parameters, receive, self._client(scope))
        outputs = self._service.outputs(call, write)
        queue_ms = round((call.started_at - call.queued_at) * 1e3, 2)
        scope["fields"].update(inputs=len(asked.inputs), batch=call.batch_size, queue_ms=queue_ms)
        return outputs

    def _client(self, scope: Scope) -> Hashable:
        """Return who is quarantined if an input fails: the value of CLIENT_HEADER, else the address."""
        if self._client_header and (value := dict(scope["headers"]).get(self._client_header)):
            return hash(value)  # which is short
        address = scope.get("client")
        return address[0] if address else None


def add_predict(app: FastAPI, service: Service) -> dict[str, Answer]:
    """Document the paths of predictions; return the functions that answer them."""
    predictions, request, aip = Predictions(service), service.request, service.settings.aip_predict_route
    answers: dict[str, Answer] = {"/predict": predictions.answer}
    request.document(app, "/predict", PROBLEM)
    if aip not in ("", "/predict"):
        request.document(app, aip, PROBLEM, include_in_schema=False)
        answers[aip] = predictions.answer
    path = _add_v1(app, service)
    request.document(app, path, PLAIN, name="v1_predict", tags=["V1"])
    answers[path] = partial(predictions.answer, any_type=True)
    if find_spec("numpy"):  # the extra "open-inference"
        from ..open_inference.protocol import add_open_inference

        answers |= add_open_inference(app, service, predictions)
    return answers


def _add_v1(app: FastAPI, service: Service) -> str:
    """Add the routes of V1 but for predictions; return the path of these."""
    name = service.name

    @app.get("/", tags=["V1"], name="v1_alive")
    async def alive() -> dict[str, str]:
        """The liveness of KServe's clients."""
        return {"status": "alive"}

    @app.get("/v1/models", tags=["V1"], name="v1_models")
    async def models() -> dict[str, list[str]]:
        """The models of this service."""
        return {"models": [name]}

    @app.get(f"/v1/models/{name}", tags=["V1"], name="v1_model")
    async def status() -> dict[str, Any]:
        """Whether the model is ready, as KServe and TensorFlow Serving have it, in one."""
        ready = service.state == "ready"
        state = {"error_code": "OK" if ready else "UNAVAILABLE", "error_message": service.reason}
        version = {"version": VERSION, "state": STATES[service.state], "status": state}
        return {"name": name, "ready": ready, "model_version_status": [version]}

    return f"/v1/models/{name}:predict"
