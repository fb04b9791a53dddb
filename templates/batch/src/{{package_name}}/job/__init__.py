"""Entry point of the batch job (the code is in wheels/): for `python -m`, and for imports of job.cli."""

from gpu_repo_runtime.batch.earlier import __path__  # noqa: F401
