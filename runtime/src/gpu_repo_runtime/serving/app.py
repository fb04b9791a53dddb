"""The HTTP interface: predictions, ``/livez``, ``/readyz``, ``/metrics`` and ``/docs``."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi_offline import FastAPIOffline
from prometheus_client.exposition import choose_encoder
from starlette.exceptions import HTTPException

from ..contract import Model
from ..inputs import InvalidInput
from ..words import words_of
from . import hooks
from .auth import OPEN, is_bearer_token
from .errors import InvalidRequest
from .middleware import RequestMiddleware, problem
from .predict import Answer, Predictions, PredictMiddleware
from .schemas import AS_PROBLEM, PLAIN, PROBLEM, PROBLEMS, Health, named_faults
from .service import Service
from .settings import Settings
from .tracing import telemetry
from .v1 import add_v1


def create_app(
    model: Model,
    settings: Settings | None = None,
    *,
    extend: Callable[[FastAPI, Service], Any] | None = None,
    load: bool = True,
) -> FastAPI:
    """Return the application, with its Service in ``app.state.service``.

    ``extend`` is the owner's, of service.py. The model is loaded before the application serves; without ``load``, by
    who calls ``Service.start``.
    """
    service = Service(model, settings or Settings())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if load:
            await service.start()
        yield
        service.stop()

    app = FastAPIOffline(
        static_url="/docs/assets",  # a cluster may have no access to public networks
        redoc_url=None,
        **_project(service),
        lifespan=lifespan,
        redirect_slashes=False,
        telemetry=telemetry(),
        generate_unique_id_function=lambda route: route.name,  # of a client's function
    )
    app.state.service = service
    for kind in (HTTPException, RequestValidationError, InvalidInput):
        app.add_exception_handler(kind, _problem)
    # The middleware that is added last sees a request first: the owner's is between these two.
    app.add_middleware(PredictMiddleware, answers=_add_predict(app, service), handlers=app.exception_handlers)
    _add_health(app, service)
    _document(app)
    app.router.responses[422] = {"description": PROBLEMS[422], **AS_PROBLEM}  # of the owner's routes
    if extend:
        hooks.extend(app, service, extend)
    app.add_middleware(RequestMiddleware, service=service)
    return app


def _project(service: Service) -> dict[str, str]:
    """Return name, version and description of the project for the OpenAPI document, and so for clients made from it."""
    package, version = type(service.model).__module__.split(".")[0], service.settings.app_version
    # Not packages_distributions(), which parses the list of files of everything that is installed.
    found = [d.metadata for d in metadata.distributions() if package in (d.read_text("top_level.txt") or "").split()]
    if len(found) != 1:
        return {"title": package, "version": version}
    [mine] = found
    version = mine["Version"] if version == "unknown" else version
    return {"title": mine["Name"], "version": version, "description": "".join(mine.get_all("Summary", []))}


def _document(app: FastAPI) -> None:
    """Let the OpenAPI document name the key that is required, and begin with the routes that the owner adds later.

    /predict and health follow, then the protocols V1 and V2.
    """
    make, ours = app.openapi, {getattr(route, "path", "") for route in app.routes}

    def place(path: str) -> int:
        return 0 if path not in ours else 2 if path == "/" or path.startswith(("/v1/", "/v2")) else 1

    def openapi() -> dict[str, Any]:
        document = make()
        document["paths"] = {path: document["paths"][path] for path in sorted(document["paths"], key=place)}
        if any(is_bearer_token(one.cls) for one in app.user_middleware):
            document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"key": []}]
            for path in document["paths"].keys() - OPEN:
                for operation in document["paths"][path].values():
                    operation["responses"]["401"] = {"description": "The token is missing or wrong", **AS_PROBLEM}
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _add_predict(app: FastAPI, service: Service) -> dict[str, Answer]:
    """Document the paths of predictions; return the functions that answer them."""
    predictions, request, aip = Predictions(service), service.request, service.settings.aip_predict_route
    answers: dict[str, Answer] = {"/predict": predictions.answer}
    request.document(app, "/predict", PROBLEM)
    if aip and aip not in answers:
        request.document(app, aip, PROBLEM, include_in_schema=False)
        answers[aip] = predictions.answer
    for path, shown in add_v1(app, service).items():
        request.document(app, path, PLAIN, name="v1_predict", tags=["V1"], include_in_schema=shown)
        answers[path] = partial(predictions.answer, any_type=True)
    if find_spec("numpy"):  # the extra "open-inference"
        from ..open_inference.protocol import add_open_inference

        answers |= add_open_inference(app, service, predictions)
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
        """Whether the process is healthy: 503 if its device is lost or a call of the model does not end."""
        return health(service.sick is None, service.sick or "")

    @app.get("/readyz", response_model=Health, responses={503: {"model": Health}})
    async def readyz() -> Response:
        """Whether requests should be sent here. A full queue does not change it: other pods may be as busy."""
        return health(service.state == "ready", service.reason)

    if settings.aip_health_route not in ("", "/readyz"):
        app.add_api_route(settings.aip_health_route, readyz, include_in_schema=False, response_class=Response)

    @app.get("/metrics", response_class=Response)
    async def metrics(request: Request) -> Response:
        """The metrics for Prometheus."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(service.metrics.registry), headers={"content-type": content_type})


async def _problem(request: Request, error: Exception) -> Response:
    """Answer an error of a route, the owner's too, as /predict does: without the values of the request."""
    if isinstance(error, RequestValidationError):
        error = InvalidRequest.of(named_faults(list(error.errors())))
    elif isinstance(error, InvalidInput):
        error = InvalidRequest(words_of(error))
    assert isinstance(error, HTTPException)
    return problem(error, request.scope)
