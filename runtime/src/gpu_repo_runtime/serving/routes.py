"""The routes of an application: those of the service, and what an owner does to them and beside them."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from fastapi import FastAPI, routing
from starlette.routing import WebSocketRoute


class Path(NamedTuple):
    """What a route answers; ``methods`` is empty for a websocket and for a mounted application."""

    path: str
    methods: frozenset[str]
    is_websocket: bool


class Routes:
    """The routes that an application has now, before its owner's code."""

    def __init__(self, app: FastAPI) -> None:
        self._app, self._router, self._around = app, app.router, app.router.middleware_stack
        self._were = [(route, dict(vars(route))) for route in app.routes]

    def come_first(self) -> bool:
        """Whether a request for one of them still comes to it, as it was: none is gone, changed or behind another."""
        first = self._app.routes[: len(self._were)]
        if self._app.router is not self._router or self._router.middleware_stack is not self._around:
            return False
        return len(first) == len(self._were) and all(
            route is was and vars(route) == about for route, (was, about) in zip(first, self._were, strict=True)
        )

    def added(self) -> list[Path]:
        """Return what came since then."""
        were = {id(route) for route, _ in self._were}
        return _paths(route for route in self._app.routes if id(route) not in were)

    def left(self) -> list[Path]:
        """Return those that are still there."""
        there = {id(route) for route in self._app.routes}
        return _paths(route for route, _ in self._were if id(route) in there)


def _paths(routes: Iterable[Any]) -> list[Path]:
    # Of an included router each route by itself; an older FastAPI has no such routers among its routes.
    contexts: Any = getattr(routing, "iter_route_contexts", None)
    found = [(about, about.original_route) for about in contexts(routes)] if contexts else [(r, r) for r in routes]
    return [
        Path(
            getattr(a, "path", "") or "", frozenset(getattr(a, "methods", ()) or ()), isinstance(route, WebSocketRoute)
        )
        for a, route in found
    ]
