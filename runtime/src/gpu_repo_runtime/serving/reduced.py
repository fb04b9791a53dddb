"""Weights in fewer bits: float16 halves those of a loaded model, int8 keeps a byte of each where PyTorch has them.

What is made smaller are the attributes of the owner's model: modules of PyTorch, and arrays of PyTorch, NumPy and JAX.
"""

import sys
from dataclasses import dataclass
from typing import Any

FORMS = ("float16", "int8")


class NotReduced(Exception):
    """The model holds nothing that can be made smaller in this way; the message says what could be."""


@dataclass(frozen=True)
class Reduced:
    """Bytes of what was made smaller, before and after."""

    before: int
    after: int


def reduce(model: Any, form: str) -> Reduced:
    """Make the weights of a loaded model smaller, in place. form: "float16" or "int8". Raises NotReduced."""
    before = after = 0
    for name, value in list(vars(model).items()):
        made = _smaller(value, form)
        if made is None:
            continue
        before += _bytes_of(value)
        value = made(value)
        after += _bytes_of(value)
        setattr(model, name, value)
    if not before:
        what = "modules of PyTorch with layers for it" if form == "int8" else "modules or arrays of float32"
        raise NotReduced(f"the attributes of the model are not {what}: leave SERVE_AS={form} out")
    return Reduced(before, after)


def _smaller(value: Any, form: str) -> Any:
    """Return what makes an attribute smaller, None where nothing does."""
    torch = sys.modules.get("torch")
    if torch and isinstance(value, torch.nn.Module):
        if form == "float16":
            return _half_module
        return _int8_module if _layers(value) else None
    if form == "int8":
        return None
    if torch and isinstance(value, torch.Tensor):
        return (lambda tensor: tensor.half()) if value.dtype == torch.float32 else None
    if str(getattr(value, "dtype", "")) == "float32" and getattr(value, "ndim", 0) > 0 and hasattr(value, "astype"):
        return lambda array: array.astype("float16")
    return None


def _bytes_of(value: Any) -> int:
    if hasattr(value, "state_dict"):
        return sum(int(tensor.nbytes) for tensor in value.state_dict().values())
    return int(value.nbytes)


def _half_module(module: Any) -> Any:
    """Compute inside of a module in float16; what goes in is turned into it, what comes out back."""
    import torch

    def turned(values: Any, kind: Any) -> Any:
        if isinstance(values, torch.Tensor):
            return values.to(kind) if values.is_floating_point() else values
        if isinstance(values, tuple) and not hasattr(values, "_fields"):
            return tuple(turned(one, kind) for one in values)
        if isinstance(values, dict):
            for name in list(values):
                values[name] = turned(values[name], kind)
        return values

    module.half()
    module.register_forward_pre_hook(
        lambda _, inputs, named: (turned(inputs, torch.float16), turned(named, torch.float16)), with_kwargs=True
    )
    module.register_forward_hook(lambda _, inputs, output: turned(output, torch.float32))
    return module


def _layers(module: Any) -> list[Any]:
    """Return linear layers and embeddings, whose weights have a scale for each row."""
    import torch

    kinds = (torch.nn.Linear, torch.nn.Embedding, torch.nn.EmbeddingBag)
    return [one for one in module.modules() if type(one) in kinds]


def _int8_module(module: Any) -> Any:
    """Keep a byte of each weight and a scale for each row; a layer's weights are whole while it computes."""
    import torch
    from torch.nn.utils import parametrize

    class Whole(torch.nn.Module):  # type: ignore[misc]  # torch is not there where types are checked
        """Turns bytes into weights."""

        def __init__(self, scales: Any, kind: Any) -> None:
            super().__init__()
            self.register_buffer("scales", scales)
            self.kind = kind

        def forward(self, stored: Any) -> Any:
            return stored.to(self.kind) * self.scales

    for layer in _layers(module):
        weight = layer.weight.detach()
        scales = weight.abs().amax(dim=1, keepdim=True).clamp(min=torch.finfo(weight.dtype).tiny) / 127
        stored = (weight / scales).round().clamp(-127, 127).to(torch.int8)
        layer.weight = torch.nn.Parameter(stored, requires_grad=False)
        parametrize.register_parametrization(layer, "weight", Whole(scales, weight.dtype), unsafe=True)
    return module
