"""The HTTP interface: ``/predict``, ``/livez``, ``/readyz``, ``/metrics`` and ``/docs``."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from prometheus_client.exposition import choose_encoder
from pydantic_core import PydanticSerializationError
from starlette.exceptions import HTTPException

from ..contract import Model
from .errors import BodyTooLarge, BodyTooSlow, ClientGone, NotJson, PredictionFailed, UpgradeAsked
from .middleware import RequestMiddleware, problem
from .schemas import Health, PredictResponse, Problem, to_json
from .service import Service
from .settings import Settings

PROBLEMS = {
    400: "The request asks for another protocol",
    408: "The body did not arrive in time",
    413: "The body is larger than MAX_BODY_BYTES",
    415: "The body is not declared as JSON",
    422: "The body is not valid; errors names the fields",
    500: "The model failed on a text",
    503: "Busy, starting, stopping or without its device; Retry-After says when to come back",
    504: "No answer within REQUEST_SECONDS",
}


def create_app(
    model: Model,
    settings: Settings | None = None,
    *,
    on_start: Callable[[Service], Any] | None = None,
) -> FastAPI:
    """The application, with its Service in ``app.state.service``.

    The model is loaded before the application serves, unless ``on_start`` is given: that is called with the Service
    in the event loop and looks after ``Service.start`` itself.
    """
    service = Service(model, settings or Settings())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if on_start:
            on_start(service)
        else:
            await service.start()
        yield
        service.stop()

    app = FastAPI(title="Predictions", version=service.settings.app_version, lifespan=lifespan, redirect_slashes=False)
    app.state.service = service
    app.add_middleware(RequestMiddleware, service=service)
    app.add_exception_handler(HTTPException, _http_problem)
    _add_predict(app, service)
    _add_health(app, service)
    return app


def _add_predict(app: FastAPI, service: Service) -> None:
    schema = service.request.model.model_json_schema(ref_template="#/components/schemas/{model}")
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    problems: dict[int | str, dict[str, Any]] = {
        status: {"description": text, "content": {"application/problem+json": {"schema": Problem.model_json_schema()}}}
        for status, text in PROBLEMS.items()
    }

    # FastAPI would parse the body before its size is known, and take twice the time over a request.
    problems[200] = {"model": PredictResponse}

    @app.post("/predict", openapi_extra={"requestBody": body}, responses=problems)
    async def predict(request: Request) -> Response:
        """Predict one or many texts."""
        texts = service.request.texts(await _read_body(request, service.settings))
        call = await service.predict(texts, request.receive, client=service.client_of(request.scope))
        request.scope["fields"].update(
            texts=len(texts),
            batch=call.batch_size,
            queue_ms=round((call.started_at - call.queued_at) * 1e3, 2),
        )
        try:
            content = to_json({"predictions": call.answers})
        except PydanticSerializationError as error:
            raise PredictionFailed(f"the model returned what JSON does not have: {error}") from error
        return Response(content, media_type="application/json")


def _add_health(app: FastAPI, service: Service) -> None:
    settings = service.settings

    def health(fine: bool, reason: str) -> Response:
        about = Health(
            status=service.state,
            reason=reason,
            version=settings.app_version,
            image=settings.app_image,
            device=service.device,
        )
        return Response(about.model_dump_json(), 200 if fine else 503, media_type="application/json")

    @app.get("/livez", response_model=Health, responses={503: {"model": Health}})
    async def livez() -> Response:
        """Whether the process is worth keeping: 503 when its device is lost or a call of the model does not end."""
        return health(service.sick is None, service.sick or "")

    @app.get("/readyz", response_model=Health, responses={503: {"model": Health}})
    async def readyz() -> Response:
        """Whether requests should be sent here. A full queue is no reason to say no: others may be as busy."""
        return health(service.state == "ready", service.reason)

    @app.get("/metrics", response_class=Response)
    async def metrics(request: Request) -> Response:
        """The metrics for Prometheus."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(service.metrics.registry), headers={"content-type": content_type})


async def _read_body(request: Request, settings: Settings) -> bytes:
    """The body, read no further than allowed. Raises NotJson, BodyTooLarge, BodyTooSlow, ClientGone or UpgradeAsked."""
    length, media_type, upgrade = None, b"", False
    for name, value in request.scope["headers"]:
        if name == b"content-length":
            length = value
        elif name == b"content-type":
            media_type = value
        elif name == b"upgrade":
            upgrade = True
    if media_type.partition(b";")[0].strip().lower() != b"application/json":
        raise NotJson("send the header Content-Type: application/json")
    too_large = BodyTooLarge(f"at most {settings.max_body_bytes} bytes are accepted")
    if length is not None and int(length) > settings.max_body_bytes:
        raise too_large
    body, more = b"", True
    try:
        async with asyncio.timeout(settings.body_seconds):
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone("the client hung up before its body was complete")
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > settings.max_body_bytes:
                    raise too_large
    except TimeoutError:
        raise BodyTooSlow(f"the body was not complete after {settings.body_seconds:g} s") from None
    if upgrade and not body:  # httptools skips the body of such a request, which Java's HttpClient sends by default
        raise UpgradeAsked("send no header Upgrade: the client is to speak HTTP/1.1 from the start")
    return body


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error, request.scope["fields"]["request_id"])
