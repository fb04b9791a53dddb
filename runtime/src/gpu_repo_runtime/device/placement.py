"""Where the parts of a loaded model are, so that a service on a GPU is not silently computed by the CPU."""

import sys
from collections.abc import Iterator
from typing import Any

from .. import device

MOST = 100  # attributes or items of one object that are looked at


def left_on_cpu(model: Any) -> list[str]:
    """Return what of ``model`` was to compute on the GPU and cannot, each with the way out; nothing is said of NumPy.

    A network that is split between devices is left in peace. An ONNX session is named whenever it has no GPU.
    """
    faults: list[str] = []
    networks: list[tuple[str, str]] = []
    for path, part in _parts(model):
        providers = part.get_providers() if _is_session(part) else ["CUDA"]
        if not any(name.startswith(("CUDA", "Tensorrt", "NvTensorRT")) for name in providers):
            faults.append(
                f"{path} is an ONNX session on {', '.join(providers)}: open it with gpu_repo_runtime.onnx.session, "
                "which says why it is not on the GPU"
            )
        networks += [(path, where) for where in _devices(part)]
    if networks and all(where == "cpu" for _, where in networks):
        names = ", ".join(dict.fromkeys(path for path, _ in networks))
        how = ".to(device) in PyTorch, jax.device_put in JAX"
        faults.append(f"{names} is on the CPU: put it on the device that load is given, {how}")
    return faults


def _parts(part: Any, path: str = "Model", depth: int = 2) -> Iterator[tuple[str, Any]]:
    """Yield ``part``, its attributes or items, and theirs, each with the path to it."""
    yield path, part
    if not depth or _is_session(part) or _devices(part):
        return
    if isinstance(part, dict):
        inside = [(f"[{key!r}]", one) for key, one in [*part.items()][:MOST]]
    elif isinstance(part, list | tuple):
        inside = [(f"[{number}]", one) for number, one in enumerate(part[:MOST])]
    else:
        inside = [(f".{name}", one) for name, one in [*getattr(part, "__dict__", {}).items()][:MOST]]
    for name, one in inside:
        yield from _parts(one, path + name, depth - 1)


def _is_session(part: Any) -> bool:
    runtime = sys.modules.get("onnxruntime")
    return runtime is not None and isinstance(part, runtime.InferenceSession)


def _devices(part: Any) -> set[str]:
    """Return the kinds of devices, such as "cpu", that a network or a tensor of a framework is on."""
    return {where for name in device.imported() for where in device.module_of(name).places(part)}
