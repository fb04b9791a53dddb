"""A stand-in for jax; FAKE_JAX_* variables inject faults. Its plugin is for CUDA 13."""

import contextlib
import os
from importlib import metadata
from types import SimpleNamespace

__version__ = "0.10.2"
metadata.distributions = lambda: iter([SimpleNamespace(metadata={"Name": "jax-cuda13-plugin"})])


class Array:
    """Any operation gives the same few numbers."""

    def __matmul__(self, other):
        return self

    def __getattr__(self, name):
        return lambda *args, **kwargs: self

    def tolist(self):
        return [1.0, 2.0]


def devices(kind):
    count = int(os.environ.get("FAKE_JAX_COUNT", os.environ.get("FAKE_COUNT", "1"))) if kind == "cuda" else 1
    if not count:
        raise RuntimeError("Unable to initialize backend 'cuda': no supported devices found for platform CUDA")
    if kind == "cuda" and os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE") != "false":
        raise MemoryError("three quarters of the GPU are taken")
    return [kind] * count


def default_device(device):
    return contextlib.nullcontext()


def _same(one, *others):
    return one


device_put = jit = grad = _same
random = SimpleNamespace(key=lambda seed: seed, normal=lambda key, shape: Array())
lax = SimpleNamespace(conv=_same)
numpy = SimpleNamespace(tanh=_same, square=_same, float32="float32", bfloat16="bfloat16")
