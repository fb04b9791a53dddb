"""TensorFlow Serving's REST interface and KServe's V1 protocol: ``/v1/models/NAME`` and ``/v1/models/NAME:predict``."""

from typing import Any

from fastapi import FastAPI

from .service import Service

STATES = {"starting": "LOADING", "ready": "AVAILABLE", "draining": "UNLOADING", "failed": "END"}
VERSION = "1"  # one model, one version: these protocols count them


def add_v1(app: FastAPI, service: Service) -> dict[str, bool]:
    """Add the routes but for predictions; return the paths of these, and whether the OpenAPI document shows them."""
    name = service.name

    @app.get("/", tags=["V1"], name="v1_alive")
    async def alive() -> dict[str, str]:
        """The liveness of KServe's clients."""
        return {"status": "alive"}

    @app.get("/v1/models", tags=["V1"], name="v1_models")
    async def models() -> dict[str, list[str]]:
        """The models of this service."""
        return {"models": [name]}

    async def status() -> dict[str, Any]:
        """Whether the model is ready, as KServe and TensorFlow Serving have it, in one."""
        ready = service.state == "ready"
        state = {"error_code": "OK" if ready else "UNAVAILABLE", "error_message": service.reason}
        version = {"version": VERSION, "state": STATES[service.state], "status": state}
        return {"name": name, "ready": ready, "model_version_status": [version]}

    paths: dict[str, bool] = {}
    for version in ("", f"/versions/{VERSION}"):
        path, shown = f"/v1/models/{name}{version}", not version
        app.add_api_route(path, status, name="v1_model", methods=["GET"], tags=["V1"], include_in_schema=shown)
        paths[f"{path}:predict"] = shown
    return paths
