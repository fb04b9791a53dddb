"""``<package>.serving.settings``, as versions 0.1 and 0.2 had it."""

from gpu_repo_runtime.serving.settings import Settings, misspelled

__all__ = ("Settings", "misspelled")
