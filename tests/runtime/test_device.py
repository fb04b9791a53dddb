"""The device: the framework that the model imports is asked, and an error of the GPU is told from words of an input."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from gpu_repo_runtime import device

from tests.answers import FRAMEWORKS
from tests.runtime.standin_model import lose_device


@pytest.mark.parametrize(
    ("imported", "asked"),
    [((), "plain"), (("torch",), "torch"), (("tensorflow",), "tensorflow"), (("jax", "torch"), "torch")],
)
def test_the_framework_that_the_model_imports_is_asked(
    monkeypatch: pytest.MonkeyPatch, imported: tuple[str, ...], asked: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    for name in imported:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert device.framework() == asked


def test_each_framework_of_the_catalogue_can_be_asked() -> None:
    assert {"plain", *device.FRAMEWORKS} == set(FRAMEWORKS), "runtime/.../device/with_NAME.py and catalog.yml differ"


def of(module: str, name: str) -> type[Exception]:
    """Return an error of a library."""
    return type(name, (RuntimeError,), {"__module__": module})


LOST, FULL = "cudaErrorLaunchFailure: unspecified launch failure", "cudaErrorMemoryAllocation: out of memory"


# An error, whether a smaller batch may help, whether the GPU is lost.
ERRORS: list[tuple[Exception, bool, bool]] = [
    (of("cupy_backends.cuda.api.runtime", "CUDARuntimeError")(LOST), False, True),
    (of("cupy_backends.cuda.api.runtime", "CUDARuntimeError")(FULL), True, False),
    (of("torch", "AcceleratorError")("CUDA error: an illegal memory access was encountered"), False, True),
    (of("torch", "AcceleratorError")("CUDA error: out of memory"), True, False),
    (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"), True, False),
    (RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: not enough memory"), True, False),
    (RuntimeError("MPS backend out of memory (MPS allocated: 17 GB)"), True, False),
    (of("torch", "AcceleratorError")("device-side assert triggered"), False, True),
    (of("torch", "OutOfMemoryError")("Tried to allocate 2 GiB"), True, False),
    (of("tensorflow.python.framework.errors_impl", "ResourceExhaustedError")("OOM"), True, False),
    (of("jaxlib", "JaxRuntimeError")("RESOURCE_EXHAUSTED: failed to allocate"), True, False),
    (of("jaxlib", "JaxRuntimeError")("INTERNAL: CUDA_ERROR_ILLEGAL_ADDRESS"), False, True),
    (of("jaxlib", "JaxRuntimeError")("INVALID_ARGUMENT: shapes differ"), False, False),
    (MemoryError(), True, False),
    # A model may repeat its input in what it raises, and a client must not end the process.
    (RuntimeError(LOST), False, False),
    *((kind(f"cannot read {LOST!r}, {FULL!r}"), False, False) for kind in (ValueError, KeyError, AssertionError)),
]


def test_what_an_error_says_of_the_gpu() -> None:
    for error, too_large, lost in ERRORS:
        assert (device.is_out_of_memory(error), device.is_device_lost(error)) == (too_large, lost), repr(error)
        assert device.reported(error) == ("" if type(error).__module__ == "builtins" else str(error))


def test_a_lost_gpu_is_seen_through_what_an_owner_makes_of_it() -> None:
    def wrap() -> None:
        try:
            lose_device()
        except RuntimeError as error:
            raise ValueError("no answer") from error

    with pytest.raises(ValueError, match="no answer") as wrapped:
        wrap()
    assert device.is_device_lost(wrapped.value)
