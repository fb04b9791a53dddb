"""The HTTP interface: predictions, ``/livez``, ``/readyz``, ``/metrics`` and ``/docs``."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi_offline import FastAPIOffline
from prometheus_client.exposition import choose_encoder
from starlette.exceptions import HTTPException

from ..contract import Model
from . import hooks
from .errors import InvalidRequest
from .middleware import ProblemMiddleware, RequestMiddleware, problem
from .openapi import Documents
from .predict import Answer, Predictions, PredictMiddleware, endpoint
from .schemas import PLAIN, PROBLEM, Health, reason_of
from .service import Service
from .settings import Settings
from .tracing import telemetry
from .v1 import add_v1

ASSETS = "/docs/assets"


def create_app(
    model: Model,
    settings: Settings | None = None,
    *,
    extend: Callable[[FastAPI, Service], Any] | None = None,
    on_start: Callable[[Service], Any] | None = None,
) -> FastAPI:
    """Return the application, with its Service in ``app.state.service``.

    ``extend`` is the owner's, of service.py. The model is loaded before the application serves, unless ``on_start`` is
    given: that is called with the Service in the event loop, and calls ``Service.start``.
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

    app = FastAPIOffline(
        static_url=ASSETS,  # a cluster may have no access to public networks
        redoc_url=None,
        title="Predictions",
        version=service.settings.app_version,
        lifespan=lifespan,
        redirect_slashes=False,
        telemetry=telemetry(),
    )
    app.state.service = service
    app.add_exception_handler(HTTPException, _http_problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    answers = _add_predict(app, service)
    _add_health(app, service)
    # The middleware that is added last sees a request first: the owner's is between these.
    app.add_middleware(ProblemMiddleware)
    app.add_middleware(PredictMiddleware, answers=answers)
    handlers = dict(app.exception_handlers)
    routed = hooks.extend(app, service, extend) if extend else True
    if not routed or app.exception_handlers != handlers:  # of the owner: predictions go through the router then
        answers.clear()
    app.add_middleware(RequestMiddleware, service=service)
    return app


def _add_predict(app: FastAPI, service: Service) -> dict[str, tuple[Answer, Any]]:
    """Add the paths of predictions; return their functions, with their routes."""
    documents, predictions, settings = Documents(service), Predictions(service), service.settings
    documents.into(app)
    found: dict[str, tuple[Answer, Any]] = {}

    def add(path: str, answer: Answer, **options: Any) -> None:
        app.add_api_route(path, endpoint(answer), methods=["POST"], **options)
        found[path] = answer, app.routes[-1]

    add("/predict", predictions.answer, **documents.predict(PROBLEM))
    if settings.aip_predict_route not in ("", "/predict"):
        add(settings.aip_predict_route, predictions.answer, include_in_schema=False)
    for path, shown in add_v1(app, service).items():
        add(
            path,
            partial(predictions.answer, any_type=True),
            tags=["V1"],
            include_in_schema=shown,
            **documents.predict(PLAIN),
        )
    if find_spec("numpy"):  # the extra "open-inference"
        from ..open_inference.protocol import add_open_inference

        add_open_inference(app, service, predictions, documents)
    return found


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
        """Whether the process is healthy: 503 if its device is lost or a call of the model does not end."""
        return health(service.sick is None, service.sick or "")

    @app.get("/readyz", response_model=Health, responses={503: {"model": Health}})
    async def readyz() -> Response:
        """Whether requests should be sent here. A full queue does not change it: other pods may be as busy."""
        return health(service.state == "ready", service.reason)

    if settings.aip_health_route not in ("", "/readyz"):
        app.add_api_route(settings.aip_health_route, readyz, include_in_schema=False, response_class=Response)

    @app.get("/", tags=["V1"])
    async def alive() -> dict[str, str]:
        """The liveness of KServe's clients."""
        return {"status": "alive"}

    @app.get("/metrics", response_class=Response)
    async def metrics(request: Request) -> Response:
        """The metrics for Prometheus."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(service.metrics.registry), headers={"content-type": content_type})


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error, request.scope)


async def _invalid(request: Request, error: Exception) -> Response:
    """Answer a request that a route of the owner rejects as /predict does: without the values of the request."""
    assert isinstance(error, RequestValidationError)
    faults = [(one["loc"][:-1] if one["type"] == "extra_forbidden" else one["loc"], one) for one in error.errors()[:20]]
    named = [{"field": ".".join(map(str, place)), "reason": reason_of(one)} for place, one in faults]
    detail = "; ".join(f"{one['field']}: {one['reason']}" for one in named[:3])
    return problem(InvalidRequest(detail, errors=named), request.scope)
