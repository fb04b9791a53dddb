"""What of a loaded model is on the CPU, so that a service on a GPU is not silently computed by the CPU.

PyTorch and ONNX Runtime leave a model there unless the code asks for the GPU. TensorFlow and JAX take the GPU
by themselves, and an array of NumPy may well belong on the CPU.
"""

import sys
from collections.abc import Iterator
from typing import Any

MOST = 100  # attributes or items of one object that are looked at


def left_on_cpu(model: Any) -> list[str]:
    """Return what of ``model`` cannot compute on the GPU, each with what to do.

    A network that is split between devices is not named. An ONNX session is named whenever it has no GPU.
    """
    torch, onnxruntime = sys.modules.get("torch"), sys.modules.get("onnxruntime")
    faults, devices = list[str](), dict[str, set[str]]()
    for path, part in _parts(model):
        if onnxruntime and isinstance(part, onnxruntime.InferenceSession):
            providers = part.get_providers()
            if not any(name.startswith(("CUDA", "Tensorrt", "NvTensorRT")) for name in providers):
                how = "open it with gpu_repo_runtime.onnx.session, which says why it is not on the GPU"
                faults.append(f"{path} is an ONNX session on {', '.join(providers)}: {how}")
        elif torch and isinstance(part, torch.nn.Module):
            devices[path] = {tensor.device.type for tensor in (*part.parameters(), *part.buffers())}
        elif torch and isinstance(part, torch.Tensor):
            devices[path] = {part.device.type}
    if set[str]().union(*devices.values()) == {"cpu"}:
        names = ", ".join(path for path, where in devices.items() if where)
        faults.append(f"{names} is on the CPU: put it on the device that load is given, with .to(device)")
    return faults


def _parts(part: Any, path: str = "Model", depth: int = 2) -> Iterator[tuple[str, Any]]:
    """Yield ``part``, its attributes or items, and theirs, each with the path to it."""
    yield path, part
    is_list, is_dict = isinstance(part, list | tuple), isinstance(part, dict)
    form = "{}[{!r}]" if is_list or is_dict else "{}.{}"
    inside = dict(enumerate(part[:MOST])) if is_list else part if is_dict else getattr(part, "__dict__", {})
    for key, one in [*inside.items()][:MOST] if depth else ():
        yield from _parts(one, form.format(path, key), depth - 1)
