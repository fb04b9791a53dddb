"""The service around the model: your own settings, routes and middleware. Optional."""

from fastapi import FastAPI
from gpu_repo_runtime.serving import settings
from gpu_repo_runtime.serving.service import Service


class Settings(settings.Settings):
    """A field here is an environment variable: `api_key: SecretStr` reads API_KEY."""


def extend(app: FastAPI, service: Service) -> None:
    """Add what you need: `app.add_middleware(...)`, or `@app.post(...)` with `await service.predict([...])` in it."""
