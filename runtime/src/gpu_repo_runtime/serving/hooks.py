"""The owner's side of the service: ``Settings`` and ``extend`` of ``<package>/service.py``, if it has them."""

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI

from ..contract import ran, refuse_async
from ..words import first_line
from .errors import StartRefused
from .service import Service
from .settings import Settings

IN = "extend in service.py"


@dataclass(frozen=True)
class Hooks:
    """The class of the settings, and what adds to the application."""

    settings: type[Settings] = Settings
    extend: Callable[[FastAPI, Service], Any] | None = None
    unused: str = ""


def find_hooks(package: str) -> Hooks:
    """Return the hooks of a package, which may have none. Raises whatever importing its service.py raises."""
    if importlib.util.find_spec(f"{package}.service") is None:
        return Hooks()
    module = importlib.import_module(f"{package}.service")
    settings, extend = getattr(module, "Settings", Settings), getattr(module, "extend", None)
    if not (isinstance(settings, type) and issubclass(settings, Settings)):
        what = f"{module.__file__}: Settings is not used: let it extend Settings of gpu_repo_runtime.serving.settings"
        return Hooks(extend=extend, unused=what)
    return Hooks(settings, extend)


def extend(app: FastAPI, service: Service, hook: Callable[[FastAPI, Service], Any]) -> None:
    """Call the owner's ``extend``. Raises StartRefused for what would have no effect."""
    ours = _operations(app)
    refuse_async(hook, IN)
    if ran(hook(app, service), IN) not in (None, app):
        raise StartRefused(f"{IN}: its return value is not used: change the app that it is given")
    if app.router.dependencies:
        raise StartRefused(
            f"{IN}: dependencies of the application do not reach the routes of the service: "
            "write a middleware, app.add_middleware(...)"
        )
    if getattr(app.router, "on_startup", None) or getattr(app.router, "on_shutdown", None):
        raise StartRefused(f"{IN}: on_event never runs: write a lifespan around app.router.lifespan_context")
    seen = _operations(app)
    if taken := next((one for one in ours if seen.count(one) != 1), None):
        raise StartRefused(f"{IN}: {' '.join(taken)} is a route of the service: use another path")


def _operations(app: FastAPI) -> list[tuple[str, str]]:
    routes: list[Any] = list(app.routes)
    return [(method, route.path) for route in routes for method in sorted(getattr(route, "methods", None) or ())]


def build_middleware(app: FastAPI) -> None:
    """Make every middleware now, not with the first request. Raises StartRefused if one cannot be made."""
    try:
        app.middleware_stack = app.build_middleware_stack()
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {first_line(error)}"
        raise StartRefused(f"a middleware of service.py cannot be made: {what}") from error
