"""The device (JAX)."""

import os
import re
from importlib.metadata import entry_points

import jax

# Take GPU memory as it is needed: JAX's own way is to take three quarters of it when it first computes.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# It asks CUPTI 13 for its version, which ends the process where there is no driver; the image's versions are checked.
os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")


def why_no_gpu() -> str:
    if not any(plugin.name.startswith("xla_cuda") for plugin in entry_points(group="jax_plugins")):
        return "the CUDA plugin of JAX is not installed (scripts/setup installs it where it sees an NVIDIA GPU)"
    try:
        jax.devices("cuda")
    except RuntimeError:
        return "JAX sees no NVIDIA GPU"
    return ""


def name_and_cuda() -> tuple[str, str]:
    """Return the name of the GPU and the version of CUDA."""
    gpu = jax.devices("cuda")[0]
    version = re.search(r"cuda (\d+)(\d\d)\d\b", gpu.client.platform_version)
    return gpu.device_kind, f"{int(version[1])}.{int(version[2])}" if version else ""


def memory() -> tuple[int, int, int, int]:
    """Return the fields of Memory, in bytes."""
    # Free and total are of what JAX may take, a part of the GPU; nothing is told where it leaves memory to the driver.
    known = jax.devices("cuda")[0].memory_stats() or {}
    used, total = known.get("bytes_in_use", 0), known.get("bytes_limit", 0)
    return used, max(0, total - used), total, known.get("peak_bytes_in_use", used)
