"""The way to the service in wheels/: for `python -m`, and for imports of serving.app and serving.settings."""

from gpu_repo_runtime.serving.earlier import PATH as __path__  # noqa: F401
