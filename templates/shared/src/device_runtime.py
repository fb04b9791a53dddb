"""Which device to compute on, and what is known about it, in the words of the framework that your model imports."""

from gpu_repo_runtime.device import *  # noqa: F403
from gpu_repo_runtime.device import __all__ as __all__
