"""``<package>.serving.app``, as versions 0.1 and 0.2 had it."""

# In an ejected copy this package is a third party, here it is the first.
# isort: skip_file

import warnings
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from gpu_repo_runtime.contract import Model, import_model
from gpu_repo_runtime.serving import app
from gpu_repo_runtime.serving.hooks import find_hooks
from gpu_repo_runtime.serving.service import Service
from gpu_repo_runtime.serving.settings import Settings


def create_app(
    settings: Settings | None = None,
    model: Model | None = None,
    *,
    on_start: Callable[[Service], Any] | None = None,
) -> FastAPI:
    """Return the application around ``model``, by default the project's own."""
    warnings.warn(
        f"{__name__} is from version 0.2: write 'from gpu_repo_runtime.serving.app import create_app' "
        "and create_app(Model(), settings)",
        DeprecationWarning,
        stacklevel=2,
    )
    package = __name__.split(".")[0]
    hooks = find_hooks(package)
    return app.create_app(
        model or import_model(package), settings or hooks.settings(), extend=hooks.extend, on_start=on_start
    )
