"""The HTTP interface: predictions in three protocols, ``/livez``, ``/readyz``, ``/metrics`` and ``/docs``."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client.exposition import choose_encoder
from starlette.exceptions import HTTPException

from ..contract import Model
from . import hooks
from .docs_page import add_docs
from .middleware import RequestMiddleware, problem
from .openapi import Documents
from .own_routes import OwnRoutes
from .predictions import Answer, Direct, Predictions
from .protocol_v1 import add_v1
from .protocol_v2 import add_v2
from .schemas import PLAIN, PROBLEM, Health
from .service import Service
from .settings import Settings
from .tracing import TraceRequests


def create_app(
    model: Model,
    settings: Settings | None = None,
    *,
    extend: Callable[[FastAPI, Service], Any] | None = None,
    on_start: Callable[[Service], Any] | None = None,
) -> FastAPI:
    """The application, with its Service in ``app.state.service``.

    ``extend`` is the owner's, of service.py. The model is loaded before the application serves, unless ``on_start`` is
    given: that is called with the Service in the event loop and looks after ``Service.start`` itself.
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
        if service.tracing:
            await service.tracing.flush()

    app = FastAPI(
        title="Predictions",
        version=service.settings.app_version,
        lifespan=lifespan,
        redirect_slashes=False,
        telemetry={"tracing": False, "logs": False},  # the spans of tracing.py, which know queue and batch, are enough
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.add_exception_handler(HTTPException, _http_problem)
    app.add_exception_handler(RequestValidationError, OwnRoutes(app).invalid)
    answers = _add_predict(app, service)
    _add_health(app, service)
    add_docs(app)
    # The last one that is added is the first that sees a request: the owner's stand between these two.
    handlers = len(app.exception_handlers)
    app.add_middleware(Direct, answers=answers)
    before = len(app.user_middleware)
    routed = hooks.extend(app, service, extend) if extend else True
    # The owner's handlers see only what comes through the router, and so does a middleware that was put behind Direct.
    innermost: object = app.user_middleware[-1].cls
    if len(app.exception_handlers) > handlers or innermost is not Direct or not routed:
        answers.clear()
    own = len(app.user_middleware) > before
    if service.tracing:
        app.add_middleware(TraceRequests, tracing=service.tracing)
    # A middleware of the owner may read any body.
    limited = frozenset() if own else frozenset(answers)
    app.add_middleware(RequestMiddleware, service=service, limited=limited)
    return app


def _add_predict(app: FastAPI, service: Service) -> dict[str, tuple[Answer, object]]:
    """Add every path of predictions; returns those that may be answered without the router."""
    documents, predictions, settings = Documents(service), Predictions(service), service.settings
    documents.into(app)

    async def predict(request: Request) -> Response:
        """Predict one or many inputs."""
        return Response(await predictions.answer(request.scope, request.receive), media_type="application/json")

    app.add_api_route("/predict", predict, methods=["POST"], **documents.predict(PROBLEM))
    answers: dict[str, tuple[Answer, object]] = {"/predict": (predictions.answer, app.routes[-1])}
    if settings.aip_predict_route not in ("", "/predict"):
        app.add_api_route(settings.aip_predict_route, predict, methods=["POST"], include_in_schema=False)
        answers[settings.aip_predict_route] = predictions.answer, app.routes[-1]
    path = add_v1(app, service, predictions, documents.predict(PLAIN))
    answers[path] = predictions.answer_v1, next(route for route in app.routes if getattr(route, "path", "") == path)
    add_v2(app, service, predictions, documents.problems(PLAIN))
    return answers


def _add_health(app: FastAPI, service: Service) -> None:
    settings = service.settings

    def health(fine: bool, reason: str) -> Response:
        about = Health(
            status=service.state,
            reason=reason,
            version=settings.app_version,
            image=settings.app_image,
            device=service.device,
            weights=service.weights,
        )
        return Response(about.model_dump_json(), 200 if fine else 503, media_type="application/json")

    @app.get("/livez", response_model=Health, responses={503: {"model": Health}})
    async def livez() -> Response:
        """Whether the process is worth keeping: 503 when its device is lost or a call of the model does not end."""
        return health(service.sick is None, service.sick or "")

    @app.get("/readyz", response_model=Health, responses={503: {"model": Health}})
    async def readyz() -> Response:
        """Whether requests should be sent here. A full queue is not a reason to say no: others may be as busy."""
        return health(service.state == "ready", service.reason)

    if settings.aip_health_route not in ("", "/readyz"):
        app.add_api_route(settings.aip_health_route, readyz, include_in_schema=False, response_class=Response)

    @app.get("/", tags=["V1"])
    async def alive() -> dict[str, str]:
        """As KServe's clients ask."""
        return {"status": "alive"}

    @app.get("/metrics", response_class=Response)
    async def metrics(request: Request) -> Response:
        """The metrics for Prometheus."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(service.metrics.registry), headers={"content-type": content_type})


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error, request.scope)
