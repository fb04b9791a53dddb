"""What stands between a connection and the service's own answers."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from .middleware import RequestMiddleware
from .predictions import Direct
from .untouched import Untouched

OURS = (RequestMiddleware, Direct)
# Of these, layers only pass on a request that ends without an error.
KNOWN = ("fastapi", "starlette", __name__.partition(".")[0])


class Way:
    """The layers of an application, from the outside to ``end``, its Direct; None where there are others among them.

    What an owner adds, and what an agent for traces, errors or metrics puts there, has to see every request. Agents
    replace the stack of layers or methods of its classes, also while the service runs.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app, self._stack = app, app.middleware_stack
        self.end: Direct | None = None
        layers = list(_layers(self._stack))
        methods = [(kind, "__call__") for layer in (app, *layers) for kind in type(layer).__mro__]
        self._methods = Untouched(methods + [(RequestResponseCycle, name) for name in ("run_asgi", "receive", "send")])
        known = all(type(layer).__module__.partition(".")[0] in KNOWN for layer in (app, *layers))
        if known and list(map(type, layers)) == _expected() and not app.root_path:
            self.end = layers[-1]

    def is_open(self) -> bool:
        """Whether everything is still as it was, and nothing measures requests."""
        if self.end is None or self._app.middleware_stack is not self._stack:
            return False
        try:
            return self._methods.still() and not self._app._native_telemetry.enabled()
        except Exception:  # this is private to FastAPI: where it does not say so, the long way is right in any case
            return False


def _layers(layer: Any) -> Iterator[Any]:
    """Every layer down to the last one of ours."""
    while layer is not None:
        yield layer
        layer = None if type(layer) is OURS[-1] else getattr(layer, "app", None)


def _expected() -> list[type]:
    """What FastAPI puts around every application, and ours inside of it."""
    bare = FastAPI()
    around = [type(layer) for layer in _layers(bare.build_middleware_stack())]
    here = next((place for place, kind in enumerate(around) if kind.__name__ == "ExceptionMiddleware"), 0)
    return [] if bare.user_middleware else [*around[:here], *OURS]
