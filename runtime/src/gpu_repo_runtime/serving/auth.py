"""A bearer token in front of the service, for ``extend`` in an owner's service.py::

app.add_middleware(BearerToken, token=service.settings.api_token)
"""

import hmac

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

OPEN = ("/livez", "/readyz", "/metrics")


class BearerToken:
    """Answers 401 to whatever does not carry ``Authorization: Bearer TOKEN``.

    ``open_paths`` answer without: by default what Kubernetes and Prometheus ask, which say nothing of any input.
    Raises ValueError for a token that is empty or no ASCII.
    """

    def __init__(self, app: ASGIApp, token: str, open_paths: tuple[str, ...] = OPEN) -> None:
        if not token or not token.isascii() or token != token.strip():
            raise ValueError("the token is empty, has spaces around it or is not ASCII")
        self._app, self._expected, self._open = app, f"Bearer {token}".encode(), frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is allowed; a websocket is closed before it is open."""
        if scope["type"] == "lifespan" or (_path(scope) in self._open and scope.get("method") in ("GET", "HEAD")):
            return await self._app(scope, receive, send)
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) == 1 and hmac.compare_digest(_scheme_in_capitals(given[0]), self._expected):
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        problem = {"title": "Unauthorized", "status": 401, "code": "unauthorized", "detail": "give a bearer token"}
        answer = JSONResponse(problem, 401, {"www-authenticate": "Bearer"}, media_type="application/problem+json")
        await answer(scope, receive, send)


def _path(scope: Scope) -> str:
    """Return the path without that under which a gateway shows the service, as routes see it."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path


def _scheme_in_capitals(value: bytes) -> bytes:
    scheme, _, token = value.partition(b" ")
    return b"Bearer " + token.strip() if scheme.lower() == b"bearer" else value
