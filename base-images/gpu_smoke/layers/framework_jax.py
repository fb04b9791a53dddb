"""What the framework layer asks of JAX."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from importlib import metadata
from types import ModuleType
from typing import Any

from ..isolate import Facts

CPU, GPU = "cpu", "cuda"


def build(jax: ModuleType) -> Facts:
    """Return the CUDA major of its plugin (None where there is none); the plugin does not tell its architectures."""
    # Read when JAX first looks for devices: it would take three quarters of the GPU's memory.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    # It asks CUPTI 13 for its version, which ends the process where there is no driver.
    os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    names = (str(entry.metadata["Name"]) for entry in metadata.distributions())
    majors = [found[1] for name in names if (found := re.fullmatch(r"jax[-_]cuda(\d+)[-_]plugin", name))]
    return {"cuda": max(majors, default=None), "archs": []}


def devices(jax: ModuleType) -> int:
    """Return the number of GPUs; what JAX says of the reason when there is none goes to standard error."""
    try:
        return len(jax.devices(GPU))
    except RuntimeError as error:
        print(error, file=sys.stderr, flush=True)
        return 0


def operations(jax: ModuleType) -> dict[str, Callable[[str], list[float]]]:
    """Return the operations by name: each takes a device and gives numbers that must be the same on every device."""
    jnp = jax.numpy

    def numbers(array: Any) -> list[float]:
        return [float(value) for value in array.astype(jnp.float32).ravel().tolist()]

    def given(device: str, *shape: int) -> Any:
        with jax.default_device(jax.devices(CPU)[0]):
            made = jax.random.normal(jax.random.key(sum(shape)), shape)
        return jax.device_put(made, jax.devices(device)[0])

    def output(weight: Any, left: Any, right: Any) -> Any:
        return jnp.tanh(left @ weight) @ right

    def network(device: str) -> tuple[Any, Any, Any]:
        return given(device, 32, 16), given(device, 8, 32), given(device, 16, 4)

    def forward(device: str) -> list[float]:
        return numbers(jax.jit(output)(*network(device)))

    def backward(device: str) -> list[float]:
        return numbers(jax.grad(lambda *parts: jnp.square(output(*parts)).mean())(*network(device)))

    def convolution(device: str) -> list[float]:
        return numbers(jax.lax.conv(given(device, 2, 3, 16, 16), given(device, 4, 3, 3, 3), (1, 1), "SAME"))

    def bf16(device: str) -> list[float]:
        return numbers(given(device, 16, 16).astype(jnp.bfloat16) @ given(device, 16, 16).astype(jnp.bfloat16))

    return {"forward": forward, "backward": backward, "convolution": convolution, "bf16": bf16}
