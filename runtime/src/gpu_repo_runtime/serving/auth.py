"""A bearer token in front of the service, for ``extend`` in an owner's service.py::

app.add_middleware(BearerToken, token=service.settings.api_token)
"""

import hmac

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

OPEN = ("/livez", "/readyz", "/metrics", "/docs", "/docs/*", "/openapi.json")


class BearerToken:
    """Answers 401 to every request without ``Authorization: Bearer TOKEN``.

    ``open_paths`` need no token; ``/*`` at the end means everything below. By default these are the paths of
    Kubernetes and Prometheus, and the documentation: none of them shows an input.
    Raises ValueError for a token that is empty, has spaces around it or is not ASCII.
    """

    def __init__(self, app: ASGIApp, token: str, open_paths: tuple[str, ...] = OPEN) -> None:
        if not token or not token.isascii() or token != token.strip():
            raise ValueError("the token is empty, has spaces around it or is not ASCII")
        self._app, self._expected = app, f"Bearer {token}".encode()
        self._open = frozenset(path for path in open_paths if not path.endswith("/*"))
        self._below = tuple(path.removesuffix("*") for path in open_paths if path.endswith("/*"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is allowed; a websocket is closed before it is open."""
        if scope["type"] == "lifespan" or self._is_open(scope) or self._has_token(scope):
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        problem = {"title": "Unauthorized", "status": 401, "code": "unauthorized", "detail": "missing or wrong token"}
        answer = JSONResponse(problem, 401, {"www-authenticate": "Bearer"}, media_type="application/problem+json")
        await answer(scope, receive, send)

    def _has_token(self, scope: Scope) -> bool:
        given = [value.partition(b" ") for name, value in scope["headers"] if name == b"authorization"]
        tokens = [b"Bearer " + token.strip() for scheme, _, token in given if scheme.lower() == b"bearer"]
        return len(given) == len(tokens) == 1 and hmac.compare_digest(tokens[0], self._expected)

    def _is_open(self, scope: Scope) -> bool:
        path = scope["path"].removeprefix(scope.get("root_path", ""))  # of the gateway, if it has one
        return scope.get("method") in ("GET", "HEAD") and (path in self._open or path.startswith(self._below))


def is_bearer_token(middleware: object) -> bool:
    """Return whether a middleware of an application is a BearerToken."""
    return isinstance(middleware, type) and issubclass(middleware, BearerToken)
