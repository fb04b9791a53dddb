"""Which device to compute on, and what is known about it, in the words of the framework that your model imports."""

from gpu_repo_runtime.device import (
    DeviceError,
    Memory,
    choose,
    describe,
    is_device_lost,
    is_out_of_memory,
    memory,
    reason,
    release,
    reset_peak,
)

__all__ = (
    "DeviceError",
    "Memory",
    "choose",
    "describe",
    "is_device_lost",
    "is_out_of_memory",
    "memory",
    "reason",
    "release",
    "reset_peak",
)
