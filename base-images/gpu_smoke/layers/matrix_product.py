"""A small matrix product by cuBLAS, with its answer from plain Python; and memory of a GPU through libcudart."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from ..calls import Api

Number = type[ctypes.c_float] | type[ctypes.c_int]


class Device:
    """Memory of the current device through libcudart; everything is freed by ``free``."""

    def __init__(self, runtime: Api) -> None:
        self.runtime = runtime
        self._taken: list[ctypes.c_void_p] = []

    def room(self, size: int) -> ctypes.c_void_p:
        """Allocate ``size`` bytes."""
        pointer = ctypes.c_void_p()
        self.runtime.check("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(max(1, size)))
        self._taken.append(pointer)
        return pointer

    def put(self, values: Sequence[Any], kind: Number = ctypes.c_float) -> ctypes.c_void_p:
        """Copy numbers to the device."""
        data = (kind * len(values))(*values)
        pointer = self.room(ctypes.sizeof(data))
        self.runtime.check("cudaMemcpy", pointer, data, ctypes.c_size_t(ctypes.sizeof(data)), ctypes.c_int(1))
        return pointer

    def get(self, pointer: ctypes.c_void_p, count: int, kind: Number = ctypes.c_float) -> list[float]:
        """Wait for the device and copy ``count`` numbers back."""
        data = (kind * count)()
        self.runtime.check("cudaDeviceSynchronize")
        self.runtime.check("cudaMemcpy", data, pointer, ctypes.c_size_t(ctypes.sizeof(data)), ctypes.c_int(2))
        return list(data)

    def free(self) -> None:
        """Give all memory back."""
        while self._taken:
            self.runtime.code("cudaFree", self._taken.pop())


def largest_error(api: Api, device: Device) -> float:
    """Multiply two 8 x 8 matrices of small integers (cublasSgemm): single precision is exact there."""
    n = 8
    a = [float((3 * i + 1) % 7) for i in range(n * n)]
    b = [float((5 * i + 2) % 9) for i in range(n * n)]
    handle, c = ctypes.c_void_p(), device.put([0.0] * (n * n))
    api.check("cublasCreate_v2", ctypes.byref(handle))
    size, no = ctypes.c_int(n), ctypes.c_int(0)
    left, right = device.put(a), device.put(b)
    alpha, beta = ctypes.c_float(1.0), ctypes.c_float(0.0)
    api.check("cublasSgemm_v2", handle, no, no, size, size, size, ctypes.byref(alpha), left, size, right, size,
              ctypes.byref(beta), c, size)  # fmt: skip
    have = device.get(c, n * n)
    api.check("cublasDestroy_v2", handle)
    want = [sum(a[k * n + row] * b[col * n + k] for k in range(n)) for col in range(n) for row in range(n)]
    gaps = [abs(a - b) for a, b in zip(have, want, strict=True)]
    return max(math.inf if math.isnan(gap) else gap for gap in gaps)
