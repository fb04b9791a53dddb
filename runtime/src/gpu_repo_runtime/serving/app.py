"""The HTTP interface: predictions, ``/livez``, ``/readyz``, ``/metrics`` and ``/docs``.

The owner adds to it by ``Settings`` and ``extend`` of ``<package>/service.py``.
"""

import importlib
import importlib.util
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib import metadata
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi_offline import FastAPIOffline
from prometheus_client.exposition import choose_encoder
from starlette.exceptions import HTTPException

from ..contract import Model, refuse_async
from ..inputs import InvalidInput
from .auth import OPEN, is_bearer_token
from .errors import ServiceError, StartRefused, invalid_request
from .middleware import QUIET, TRACING, PredictMiddleware, RequestMiddleware, problem
from .predict import add_predict
from .schemas import AS_PROBLEM, PROBLEMS, Health, named_faults
from .service import Service
from .settings import Settings

Extend = Callable[[FastAPI, Service], Any]
log = logging.getLogger(__name__)
IN = "extend in service.py"


def create_app(
    model: Model,
    settings: Settings | None = None,
    *,
    extend: Extend | None = None,
    load: bool = True,
) -> FastAPI:
    """Return the application, with its Service in ``app.state.service``.

    ``extend`` is the owner's, of service.py. The model is loaded before the application serves; without ``load``, by
    who calls ``Service.start``.
    """
    service = Service(model, settings or Settings())
    package, version = type(model).__module__.split(".")[0], service.settings.app_version
    with suppress(metadata.PackageNotFoundError):  # of a client that is made from /openapi.json too
        version = metadata.version(package) if version == "unknown" else version

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if load:
            await service.start()
        yield
        service.stop()

    app = FastAPIOffline(
        static_url="/docs/assets",  # a cluster may have no access to public networks
        redoc_url=None,
        title=package,
        version=version,
        lifespan=lifespan,
        redirect_slashes=False,
        telemetry={  # spans if a variable of OpenTelemetry is set; its logs would contain the messages of exceptions
            "tracing": TRACING,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": True,
            "exclude": lambda scope: scope["type"] == "http" and scope["path"] in QUIET,
        },
        generate_unique_id_function=lambda route: route.name,  # of a client's function
    )
    app.state.service = service
    for kind in (HTTPException, RequestValidationError, InvalidInput):
        app.add_exception_handler(kind, _problem)
    # The middleware that is added last sees a request first: the owner's is between these two.
    app.add_middleware(PredictMiddleware, answers=add_predict(app, service), handlers=app.exception_handlers)
    _add_health(app, service)
    _document_key(app)
    app.router.responses[422] = {"description": PROBLEMS[422], **AS_PROBLEM}  # of the owner's routes
    if extend:
        _extend(app, service, extend)
    app.add_middleware(RequestMiddleware, service=service)
    return app


def _document_key(app: FastAPI) -> None:
    """Let the OpenAPI document name the key that BearerToken requires."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        document = make()
        if any(is_bearer_token(one.cls) for one in app.user_middleware):
            document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"key": []}]
            for path in document["paths"].keys() - OPEN:
                for operation in document["paths"][path].values():
                    operation["responses"]["401"] = {"description": "The token is missing or wrong", **AS_PROBLEM}
        return document

    app.openapi = openapi  # type: ignore[method-assign]


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
        error = invalid_request(named_faults(list(error.errors())))
    elif isinstance(error, InvalidInput):
        error = ServiceError(str(error), "invalid_request")
    assert isinstance(error, HTTPException)
    return problem(error, request.scope)


def find_hooks(package: str) -> tuple[type[Settings], Extend | None]:
    """Return ``Settings`` and ``extend`` of a package. Raises whatever importing its service.py raises."""
    if importlib.util.find_spec(f"{package}.service") is None:
        return Settings, None
    module = importlib.import_module(f"{package}.service")
    settings = getattr(module, "Settings", Settings)
    if not (isinstance(settings, type) and issubclass(settings, Settings)):
        what = "Settings is not used: let it extend Settings of gpu_repo_runtime.serving.settings"
        log.warning("%s: %s", module.__file__, what)  # before the log is set up, on standard error
        settings = Settings
    return settings, getattr(module, "extend", None)


def _extend(app: FastAPI, service: Service, hook: Extend) -> None:
    """Call the owner's ``extend``. Raises StartRefused for what would have no effect."""
    ours = _operations(app)
    refuse_async(hook, IN)
    if hook(app, service) not in (None, app):
        raise StartRefused(f"{IN}: its return value is not used: change the app that it is given")
    if app.router.dependencies:
        raise StartRefused(
            f"{IN}: dependencies of the application do not reach the routes of the service: "
            "write a middleware, app.add_middleware(...)"
        )
    if app.router.on_startup or app.router.on_shutdown:
        raise StartRefused(f"{IN}: on_event never runs: write a lifespan around app.router.lifespan_context")
    seen = _operations(app)
    if taken := next((one for one in ours if seen.count(one) != 1), None):
        raise StartRefused(f"{IN}: {' '.join(taken)} is a route of the service: use another path")


def _operations(app: FastAPI) -> list[tuple[str, str]]:
    routes: list[Any] = list(app.routes)
    return [(method, route.path) for route in routes for method in sorted(getattr(route, "methods", None) or ())]
