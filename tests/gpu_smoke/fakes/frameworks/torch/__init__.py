"""A stand-in for torch: every operation gives the same few numbers; FAKE_TORCH_* variables inject faults."""

import os
import time
from types import SimpleNamespace

__version__ = os.environ.get("FAKE_TORCH_VERSION", "2.15.0+cu130")
_wrong = os.environ.get("FAKE_TORCH_WRONG")
_flags = os.environ.get("FAKE_TORCH_ARCHS", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120")
_cuda = os.environ.get("FAKE_TORCH_CUDA", "13.0") or None

if os.environ.get("FAKE_TORCH_IMPORT"):
    raise ImportError(os.environ["FAKE_TORCH_IMPORT"])
if os.environ.get("FAKE_TORCH_PRELOAD"):
    import ctypes

    for _path in os.environ["FAKE_TORCH_PRELOAD"].split(":"):
        ctypes.CDLL(_path, mode=ctypes.RTLD_GLOBAL)
        if os.environ.get("FAKE_TORCH_UNLINK"):
            os.unlink(_path)


class Tensor:
    """Any method gives the tensor back, except those below."""

    def __init__(self, device="cpu"):
        self.device = device

    def to(self, device):
        if device == "cuda" and os.environ.get("FAKE_TORCH_SLOW"):
            time.sleep(600)
        if device == "cuda" and os.environ.get("FAKE_TORCH_ERROR"):
            raise RuntimeError(os.environ["FAKE_TORCH_ERROR"])
        return Tensor(device)

    def __matmul__(self, other):
        return self

    def __getattr__(self, name):
        if name == "grad":
            return self
        return lambda *args, **kwargs: self

    def tolist(self):
        return [1.0, 2.0, 3.5 if self.device == "cuda" and _wrong else 3.0]


def randn(*shape, generator=None):
    return Tensor()


def tanh(tensor):
    return tensor


class Generator:
    def manual_seed(self, seed):
        return self


nn = SimpleNamespace(functional=SimpleNamespace(conv2d=lambda image, weights, padding: image))
version = SimpleNamespace(cuda=_cuda)
_C = SimpleNamespace(_cuda_getArchFlags=lambda: _flags)
cuda = SimpleNamespace(
    device_count=lambda: int(os.environ.get("FAKE_TORCH_COUNT", os.environ.get("FAKE_COUNT", "1"))),
    is_available=lambda: True,
)
