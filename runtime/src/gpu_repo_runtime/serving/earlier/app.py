"""``<package>.serving.app``, as versions 0.1 and 0.2 had it."""

# In an ejected copy this package is a third party, here it is the first.
# isort: skip_file

import warnings
from typing import Any

from fastapi import FastAPI

from gpu_repo_runtime.contract import import_model
from gpu_repo_runtime.serving import app

NOW = "from version 0.2: write 'from gpu_repo_runtime.serving.app import create_app' and create_app(Model(), settings)"


def create_app(settings: Any = None, model: Any = None, **options: Any) -> FastAPI:
    """Return the application around ``model``, by default the project's own."""
    warnings.warn(f"{__name__} is {NOW}", DeprecationWarning, stacklevel=2)
    package = __name__.split(".")[0]
    settings_type, extend = app.find_hooks(package)
    settings = settings or settings_type()
    return app.create_app(model or import_model(package), settings, extend=extend, **options)
