"""The owner's side of the service: ``Settings`` and ``extend`` of ``<package>/service.py``, where it has them."""

import importlib
import importlib.util
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI

from ..contract import ran, refuse_async
from ..words import first_line
from .errors import StartRefused
from .routes import Routes
from .service import Service
from .settings import Settings

log = logging.getLogger(__name__)


def _add_nothing(_: FastAPI, __: Service) -> None: ...


@dataclass(frozen=True)
class Hooks:
    """The class of the settings, and what adds to the application."""

    settings: type[Settings] = Settings
    extend: Callable[[FastAPI, Service], Any] = _add_nothing
    unused: str = ""


def find_hooks(package: str) -> Hooks:
    """Return the hooks of a package, which may have none. Raises whatever importing its service.py raises."""
    if importlib.util.find_spec(f"{package}.service") is None:
        return Hooks()
    module = importlib.import_module(f"{package}.service")
    settings, extend = getattr(module, "Settings", Settings), getattr(module, "extend", _add_nothing)
    if not (isinstance(settings, type) and issubclass(settings, Settings)):
        what = f"{module.__file__}: Settings is not used: let it extend Settings of gpu_repo_runtime.serving.settings"
        return Hooks(extend=extend, unused=what)
    return Hooks(settings, extend)


def extend(app: FastAPI, service: Service, hook: Callable[[FastAPI, Service], Any]) -> bool:
    """Call the owner's ``extend``; return whether the service's own routes are still what answers their paths.

    Raises StartRefused for what would not have the effect that it looks to have.
    """
    ours = Routes(app)
    refuse_async(hook, "extend in service.py")
    if ran(hook(app, service), "extend in service.py") not in (None, app):
        raise StartRefused("extend in service.py: what it returns is not used: change the app that it is given")
    if app.router.dependencies:
        raise StartRefused(
            "extend in service.py: dependencies of the application do not reach the routes of the service: "
            "write a middleware, app.add_middleware(...)"
        )
    if any(getattr(app.router, name, None) for name in ("on_startup", "on_shutdown")):
        raise StartRefused(
            "extend in service.py: on_event and add_event_handler never run beside a lifespan, which loads the model: "
            "write a lifespan around app.router.lifespan_context"
        )
    taken = {(method, one.path) for one in ours.left() for method in one.methods}
    for one in ours.added():
        if one.is_websocket and not any(map(importlib.util.find_spec, ("websockets", "wsproto"))):
            raise StartRefused(f"extend in service.py: the websocket {one.path} needs the package websockets")
        for method in sorted(one.methods):
            if (method, one.path) in taken:
                raise StartRefused(f"extend in service.py: {method} {one.path} is the service's own: take another path")
    return ours.come_first()


def build_middleware(app: FastAPI) -> None:
    """Make every middleware now, and not with the first request. Raises StartRefused for one that cannot be made."""
    try:
        app.middleware_stack = app.build_middleware_stack()
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {first_line(error)}"
        raise StartRefused(f"a middleware of service.py cannot be made: {what}") from error
