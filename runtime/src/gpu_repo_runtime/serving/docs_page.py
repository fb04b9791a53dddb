"""The page ``/docs``, with everything that it shows served from here: a cluster may have no way out."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

ASSETS = "/docs/assets"


def add_docs(app: FastAPI) -> None:
    """Add the page and its assets; where their package was left out, the page loads them from a public network."""
    package = find_spec("fastapi_offline")
    if package and package.origin:
        app.mount(ASSETS, StaticFiles(directory=Path(package.origin).parent / "static"), name="docs-assets")

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "").rstrip("/")
        assets: dict[str, Any] = {
            "swagger_js_url": f"{root}{ASSETS}/swagger-ui-bundle.js",
            "swagger_css_url": f"{root}{ASSETS}/swagger-ui.css",
            "swagger_favicon_url": f"{root}{ASSETS}/favicon.png",
        }
        return get_swagger_ui_html(
            openapi_url=f"{root}{app.openapi_url}",
            title=app.title,
            swagger_ui_parameters={"validatorUrl": None},  # its badge asks a public service
            **(assets if package else {}),
        )
