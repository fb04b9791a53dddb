"""The HTTP service around the owner's model: start it with ``python -m gpu_repo_runtime.serving PACKAGE``."""
