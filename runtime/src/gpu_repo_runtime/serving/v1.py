"""TensorFlow Serving's REST interface and KServe's V1 protocol: ``/v1/models/NAME`` and ``/v1/models/NAME:predict``."""

from fastapi import FastAPI
from pydantic import BaseModel

from .service import Service

STATES = {"starting": "LOADING", "ready": "AVAILABLE", "draining": "UNLOADING", "failed": "END"}
VERSION = "1"  # one model, one version: these protocols count them


class ModelList(BaseModel):
    """The names of the models here."""

    models: list[str]


class VersionStatus(BaseModel):
    """One version as TensorFlow Serving has it."""

    version: str
    state: str
    status: dict[str, str]


class ModelStatus(BaseModel):
    """The status of a model as KServe and TensorFlow Serving have it, in one."""

    name: str
    ready: bool
    model_version_status: list[VersionStatus]


def add_v1(app: FastAPI, service: Service) -> dict[str, bool]:
    """Add the routes but for predictions; return the paths of these, and whether the OpenAPI document shows them."""
    name = service.name

    @app.get("/v1/models", tags=["V1"])
    async def models() -> ModelList:
        """The models of this service."""
        return ModelList(models=[name])

    async def status() -> ModelStatus:
        """Whether the model is ready."""
        ready = service.state == "ready"
        state = {"error_code": "OK" if ready else "UNAVAILABLE", "error_message": service.reason}
        version = VersionStatus(version=VERSION, state=STATES[service.state], status=state)
        return ModelStatus(name=name, ready=ready, model_version_status=[version])

    paths: dict[str, bool] = {}
    for version in ("", f"/versions/{VERSION}"):
        path, shown = f"/v1/models/{name}{version}", not version
        app.add_api_route(path, status, methods=["GET"], tags=["V1"], include_in_schema=shown)
        paths[f"{path}:predict"] = shown
    return paths
