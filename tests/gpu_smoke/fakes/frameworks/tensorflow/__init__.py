"""A stand-in for tensorflow; FAKE_TF_* variables inject faults."""

import contextlib
import os
from types import SimpleNamespace

__version__ = "2.21.0"
float32 = bfloat16 = None
_GPUS = int(os.environ.get("FAKE_TF_COUNT", os.environ.get("FAKE_COUNT", "1")))


class Tensor:
    """Any operation gives the same few numbers."""

    def numpy(self):
        return self

    def tolist(self):
        return [1.0, 2.0]


def device(name):
    return contextlib.nullcontext()


class GradientTape:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def watch(self, tensor):
        return None

    def gradient(self, loss, weight):
        return loss


def _same(*args, **kwargs):
    return Tensor()


def _list_physical_devices(kind):
    if not _GPUS:
        os.write(2, b"W0000 gpu_device.cc: Cannot dlopen some GPU libraries. Skipping registering GPU devices...\n")
    return [f"GPU:{n}" for n in range(_GPUS)]


cast = reshape = tanh = identity = square = reduce_mean = _same
linalg = SimpleNamespace(matmul=_same)
nn = SimpleNamespace(conv2d=_same)
random = SimpleNamespace(stateless_normal=lambda shape, seed: Tensor())
config = SimpleNamespace(
    list_physical_devices=_list_physical_devices,
    experimental=SimpleNamespace(set_memory_growth=lambda gpu, on: None),
)
sysconfig = SimpleNamespace(
    get_build_info=lambda: {
        "is_cuda_build": os.environ.get("FAKE_TF_CUDA", "12.5.1") != "",
        "cuda_version": os.environ.get("FAKE_TF_CUDA", "12.5.1"),
        "cudnn_version": "9",
        "cuda_compute_capabilities": ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"],
    }
)
