"""Where the parts of a loaded model are, so that a service on a GPU is not silently computed by the CPU."""

import sys
from collections.abc import Iterator
from typing import Any

from .. import device

# A model holds its network as an attribute, or as an attribute of a wrapper; deeper is its own business.
DEPTH = 3
MOST_OBJECTS = 2_000


def left_on_cpu(model: Any) -> list[str]:
    """Return what of ``model`` was to compute on the GPU and cannot, each with the way out; nothing is said of NumPy.

    A network that is split between devices is left in peace. An ONNX session is named whenever it has no GPU.
    """
    networks: list[tuple[str, str]] = []
    sessions = []
    for path, part in _parts(model):
        if (providers := _providers(part)) is not None:
            if not any(name.startswith(("CUDA", "Tensorrt", "NvTensorRT")) for name in providers):
                sessions.append(
                    f"{path} is an ONNX session on {', '.join(providers)}: open it with gpu_repo_runtime.onnx.session, "
                    "which says why it is not on the GPU"
                )
        else:
            networks += [(path, where) for where in _devices(part)]
    if networks and all(where == "cpu" for _, where in networks):
        names = ", ".join(dict.fromkeys(path for path, _ in networks))
        how = ".to(device) in PyTorch, jax.device_put in JAX"
        return [*sessions, f"{names} is on the CPU: put it on the device that load is given, {how}"]
    return sessions


def unlimited_sessions(model: Any) -> list[str]:
    """Return the ONNX sessions of ``model`` that start a thread for each core of the machine."""
    return [
        path
        for path, part in _parts(model)
        if _providers(part) is not None and part.get_session_options().intra_op_num_threads == 0
    ]


def _parts(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield what ``model`` is made of, each with the path to it."""
    waiting: list[tuple[str, Any, int]] = [("Model", model, 0)]
    seen: set[int] = set()
    while waiting and len(seen) < MOST_OBJECTS:
        path, part, depth = waiting.pop(0)
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield path, part
        if depth < DEPTH and not _known(part):
            waiting += [(f"{path}{name}", inner, depth + 1) for name, inner in _inside(part)]


def _inside(part: Any) -> list[tuple[str, Any]]:
    if isinstance(part, dict):
        return [(f"[{key!r}]", inner) for key, inner in part.items()]
    if isinstance(part, list | tuple):
        return [(f"[{number}]", inner) for number, inner in enumerate(part[:MOST_OBJECTS])]
    if isinstance(part, type) or (callable(part) and hasattr(part, "__code__")):
        return []
    return [(f".{name}", inner) for name, inner in getattr(part, "__dict__", {}).items()]


def _known(part: Any) -> bool:
    return _providers(part) is not None or bool(_devices(part))


def _providers(part: Any) -> list[str] | None:
    runtime = sys.modules.get("onnxruntime")
    if runtime is None or not isinstance(part, runtime.InferenceSession):
        return None
    return list(part.get_providers())


def _devices(part: Any) -> set[str]:
    """Return the kinds of devices, such as "cpu", that a network or a tensor of a framework is on."""
    return {where for name in device.imported() for where in device.module_of(name).places(part)}
