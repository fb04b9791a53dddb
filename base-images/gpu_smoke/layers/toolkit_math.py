"""Small computations on the GPU with each toolkit library, each with its own answer from plain Python.

Every function takes the library's Api and a Device, and returns the greatest absolute error (0 is exact).
The numbers are small integers where the library allows it, so that the answer in single precision is exact.
"""

from __future__ import annotations

import cmath
import ctypes
import math
from collections.abc import Iterable, Sequence
from typing import Any

from ..calls import Api

FLOAT = 4
INT32_INDEX, FLOAT32 = 2, 0
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


def _error(have: Iterable[float], want: Iterable[float]) -> float:
    gaps = [abs(a - b) for a, b in zip(have, want, strict=False)]
    return max((math.inf if math.isnan(gap) else gap for gap in gaps), default=math.inf)


def _one(value: float = 1.0) -> ctypes.c_float:
    return ctypes.c_float(value)


def cublas(api: Api, device: Device) -> float:
    """Multiply two 8 x 8 matrices of small integers (cublasSgemm, column-major)."""
    n = 8
    a = [float((3 * i + 1) % 7) for i in range(n * n)]
    b = [float((5 * i + 2) % 9) for i in range(n * n)]
    handle, c = ctypes.c_void_p(), device.put([0.0] * (n * n))
    api.check("cublasCreate_v2", ctypes.byref(handle))
    size, no = ctypes.c_int(n), ctypes.c_int(0)
    left, right = device.put(a), device.put(b)
    alpha, beta = _one(), _one(0.0)
    api.check("cublasSgemm_v2", handle, no, no, size, size, size, ctypes.byref(alpha), left, size, right, size,
              ctypes.byref(beta), c, size)  # fmt: skip
    have = device.get(c, n * n)
    api.check("cublasDestroy_v2", handle)
    want = [sum(a[k * n + row] * b[col * n + k] for k in range(n)) for col in range(n) for row in range(n)]
    return _error(have, want)


def curand(api: Api, device: Device) -> float:
    """Draw 1000 uniform numbers (Philox, one seed) on device and host; numbers out of (0, 1] give an infinite error."""
    count, draws = 1000, []
    for create, on_device in (("curandCreateGenerator", True), ("curandCreateGeneratorHost", False)):
        generator, host = ctypes.c_void_p(), (ctypes.c_float * count)()
        api.check(create, ctypes.byref(generator), ctypes.c_int(161))
        api.check("curandSetPseudoRandomGeneratorSeed", generator, ctypes.c_ulonglong(20))
        room = device.room(FLOAT * count)
        api.check("curandGenerateUniform", generator, room if on_device else host, ctypes.c_size_t(count))
        draws.append(device.get(room, count) if on_device else list(host))
        api.check("curandDestroyGenerator", generator)
    if not all(0.0 < value <= 1.0 for value in draws[0]) or not 0.45 < sum(draws[0]) / count < 0.55:
        return math.inf
    return _error(*draws)


def cusolver(api: Api, device: Device) -> float:
    """Factor a 4 x 4 positive definite matrix (Cholesky, lower) and compare with the textbook algorithm."""
    n, a = 4, [4.0, 2.0, 2.0, 0.0, 2.0, 5.0, 3.0, 2.0, 2.0, 3.0, 11.0, 4.0, 0.0, 2.0, 4.0, 9.0]
    handle, work_size, size, lower = ctypes.c_void_p(), ctypes.c_int(0), ctypes.c_int(n), ctypes.c_int(0)
    api.check("cusolverDnCreate", ctypes.byref(handle))
    matrix, info = device.put(a), device.put([0], ctypes.c_int)
    api.check("cusolverDnSpotrf_bufferSize", handle, lower, size, matrix, size, ctypes.byref(work_size))
    work = device.room(FLOAT * work_size.value)
    api.check("cusolverDnSpotrf", handle, lower, size, matrix, size, work, work_size, info)
    have = device.get(matrix, n * n)
    api.check("cusolverDnDestroy", handle)
    want = _cholesky(a, n)
    return _error([have[c * n + r] for c in range(n) for r in range(c, n)],
                  [want[r][c] for c in range(n) for r in range(c, n)])  # fmt: skip


def _cholesky(a: list[float], n: int) -> list[list[float]]:
    factor = [[0.0] * n for _ in range(n)]
    for row in range(n):
        for col in range(row + 1):
            rest = a[row * n + col] - sum(factor[row][k] * factor[col][k] for k in range(col))
            factor[row][col] = math.sqrt(rest) if row == col else rest / factor[col][col]
    return factor


def cusparse(api: Api, device: Device) -> float:
    """Multiply a 4 x 4 sparse matrix (CSR, 5 entries) with a vector (cusparseSpMV)."""
    offsets, columns, values = [0, 2, 3, 3, 5], [0, 3, 1, 0, 2], [1.0, 2.0, 3.0, 4.0, 5.0]
    x = [1.0, 2.0, 3.0, 4.0]
    handle, matrix, left, right = (ctypes.c_void_p() for _ in range(4))
    wide, kind, alpha, beta = ctypes.c_int64, ctypes.c_int(FLOAT32), _one(), _one(0.0)
    index, zero, size = ctypes.c_int(INT32_INDEX), ctypes.c_int(0), ctypes.c_size_t(0)
    api.check("cusparseCreate", ctypes.byref(handle))
    api.check("cusparseCreateCsr", ctypes.byref(matrix), wide(4), wide(4), wide(5), device.put(offsets, ctypes.c_int),
              device.put(columns, ctypes.c_int), device.put(values), index, index, zero, kind)  # fmt: skip
    y = device.put([0.0] * 4)
    api.check("cusparseCreateDnVec", ctypes.byref(right), wide(4), device.put(x), kind)
    api.check("cusparseCreateDnVec", ctypes.byref(left), wide(4), y, kind)
    shared = (handle, zero, ctypes.byref(alpha), matrix, right, ctypes.byref(beta), left, kind, zero)
    api.check("cusparseSpMV_bufferSize", *shared, ctypes.byref(size))
    api.check("cusparseSpMV", *shared, device.room(size.value))
    have = device.get(y, 4)
    api.check("cusparseDestroy", handle)
    rows = [range(offsets[r], offsets[r + 1]) for r in range(4)]
    return _error(have, [sum(values[i] * x[columns[i]] for i in row) for row in rows])


def cufft(api: Api, device: Device) -> float:
    """Transform 8 complex numbers (cufftExecC2C, forward) and compare with the definition of the DFT."""
    n = 8
    signal = [complex(i % 3, -(i % 2)) for i in range(n)]
    plan, forward, c2c = ctypes.c_int(0), ctypes.c_int(-1), ctypes.c_int(0x29)
    data = device.put([part for z in signal for part in (z.real, z.imag)])
    api.check("cufftPlan1d", ctypes.byref(plan), ctypes.c_int(n), c2c, ctypes.c_int(1))
    api.check("cufftExecC2C", plan, data, data, forward)
    have = device.get(data, 2 * n)
    api.check("cufftDestroy", plan)
    want = [sum(z * cmath.exp(-2j * cmath.pi * k * i / n) for i, z in enumerate(signal)) for k in range(n)]
    return _error(have, [part for z in want for part in (z.real, z.imag)])


def cudnn(api: Api, device: Device) -> float:
    """Convolve a 5 x 5 image with a 3 x 3 filter (cudnnConvolutionForward, cross-correlation, implicit GEMM)."""
    image, weights = [float(i % 4) for i in range(25)], [float(i % 3) for i in range(9)]
    handle, x_shape, y_shape, w_shape, shape = (ctypes.c_void_p() for _ in range(5))
    number = ctypes.c_int
    one, nothing = number(1), number(0)
    api.check("cudnnCreate", ctypes.byref(handle))
    for descriptor, side in ((x_shape, 5), (y_shape, 3)):
        api.check("cudnnCreateTensorDescriptor", ctypes.byref(descriptor))
        api.check("cudnnSetTensor4dDescriptor", descriptor, nothing, nothing, one, one, number(side), number(side))
    api.check("cudnnCreateFilterDescriptor", ctypes.byref(w_shape))
    api.check("cudnnSetFilter4dDescriptor", w_shape, nothing, nothing, one, one, number(3), number(3))
    api.check("cudnnCreateConvolutionDescriptor", ctypes.byref(shape))
    api.check("cudnnSetConvolution2dDescriptor", shape, nothing, nothing, one, one, one, one, one, nothing)
    alpha, beta, y = _one(), _one(0.0), device.put([0.0] * 9)
    given = (handle, ctypes.byref(alpha), x_shape, device.put(image), w_shape, device.put(weights), shape)
    workspace = (nothing, None, ctypes.c_size_t(0))
    api.check("cudnnConvolutionForward", *given, *workspace, ctypes.byref(beta), y_shape, y)
    have = device.get(y, 9)
    api.check("cudnnDestroy", handle)
    want = [
        sum(image[(r + i) * 5 + c + j] * weights[3 * i + j] for i in range(3) for j in range(3))
        for r in range(3)
        for c in range(3)
    ]
    return _error(have, want)


def nccl(api: Api, device: Device) -> float:
    """Ask for a unique id: the collective itself is tested in its own layer."""
    api.check("ncclGetUniqueId", ctypes.byref((ctypes.c_byte * 128)()))
    return 0.0
