"""Runs the service in wheels/ for `python -m`."""

from gpu_repo_runtime.serving.earlier import PATH as __path__  # noqa: F401
