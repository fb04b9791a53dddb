"""What the framework layer asks of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..isolate import Facts
from . import kernel_compiler

CPU, GPU = "cpu", "cuda"


def build(torch: ModuleType) -> Facts:
    """Return its CUDA version (None for a CPU build), its architectures, and whether Triton's module compiles."""
    flags = getattr(getattr(torch, "_C", None), "_cuda_getArchFlags", lambda: "")() or ""
    compiles = kernel_compiler.ask() if torch.version.cuda else {}
    return {"cuda": torch.version.cuda, "archs": str(flags).split(), "torch_compile": compiles}


def devices(torch: ModuleType) -> int:
    """Return the number of devices; ``is_available()`` alone can be true with none."""
    return int(torch.cuda.device_count())


def operations(torch: ModuleType) -> dict[str, Callable[[str], list[float]]]:
    """Return the operations by name: each takes a device and gives numbers that must be the same on every device."""

    def numbers(tensor: Any) -> list[float]:
        return [float(value) for value in tensor.detach().float().cpu().flatten().tolist()]

    def given(*shape: int) -> Any:
        return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))

    def network(device: str) -> tuple[Any, Any]:
        weight = given(32, 16).to(device).requires_grad_()
        output = torch.tanh(given(8, 32).to(device) @ weight) @ given(16, 4).to(device)
        return output, weight

    def forward(device: str) -> list[float]:
        return numbers(network(device)[0])

    def backward(device: str) -> list[float]:
        output, weight = network(device)
        output.square().mean().backward()
        return numbers(weight.grad)

    def convolution(device: str) -> list[float]:
        image, weights = given(2, 3, 16, 16).to(device), given(4, 3, 3, 3).to(device)
        return numbers(torch.nn.functional.conv2d(image, weights, padding=1))

    def bf16(device: str) -> list[float]:
        return numbers(given(16, 16).to(device).bfloat16() @ given(16, 16).to(device).bfloat16())

    return {"forward": forward, "backward": backward, "convolution": convolution, "bf16": bf16}
