"""What gpu-smoke hands to C functions, compared with what the functions of NVIDIA's headers take."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.gpu_smoke.smoke_machine import HERE, Machine

Call = dict[str, Any]
# Which header declares the functions that begin with these letters; the longest beginning counts.
HEADERS = {
    "cu": "cuda.h", "cuda": "cuda_runtime_api.h", "nvml": "nvml.h", "cublas": "cublas_v2.h", "curand": "curand.h",
    "cusolver": "cusolverDn.h", "cusparse": "cusparse.h", "cufft": "cufft.h", "cudnn": "cudnn.h", "nccl": "nccl.h",
}  # fmt: skip
DRIVER = ("cuda.h", "cuda_runtime_api.h", "nvml.h")
TOOLKIT = tuple(header for header in HEADERS.values() if header not in DRIVER)
_COPIES = ("cudaMemcpyHostToDevice", "cudaMemcpyDeviceToHost")
_ATTRIBUTES = (
    "COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR", "COMPUTE_MODE", "ECC_ENABLED", "INTEGRATED",
    "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES", "MULTIPROCESSOR_COUNT",
)  # fmt: skip
# The enumerations among the arguments: function -> position -> the names, one of which the number has to be.
NAMED: dict[str, dict[int, str | tuple[str, ...]]] = {
    "cuDeviceGetAttribute": {1: tuple(f"CU_DEVICE_ATTRIBUTE_{name}" for name in _ATTRIBUTES)},
    "cuGetErrorName": {0: "CUDA_ERROR_INVALID_VALUE"},
    "cudaMemcpy": {3: _COPIES},
    "nvmlDeviceGetTotalEccErrors": {1: "NVML_MEMORY_ERROR_TYPE_UNCORRECTED", 2: "NVML_VOLATILE_ECC"},
    "cublasGetProperty": {0: ("MAJOR_VERSION", "MINOR_VERSION", "PATCH_LEVEL")},
    "cublasSgemm_v2": {1: "CUBLAS_OP_N", 2: "CUBLAS_OP_N"},
    "cusparseGetProperty": {0: ("MAJOR_VERSION", "MINOR_VERSION", "PATCH_LEVEL")},
    "ncclAllReduce": {3: "ncclFloat32", 4: "ncclSum"},
}  # fmt: skip


def header_of(function: str) -> str:
    """Return the header that declares a function."""
    return HEADERS[max((letters for letters in HEADERS if function.startswith(letters)), key=len)]


def record(machine: Machine) -> list[Call]:
    """Walk a machine with two GPUs, and one whose driver does not start; return the calls, equal ones once."""
    file = machine.home / "calls.jsonl"
    machine.good().set(COUNT=2, MIG=1, MIG_INSTANCES=1, FABRIC=3)
    machine.variables(RECORD_CALLS=str(file)).python_path.append(HERE / "recorder")
    result = machine.run("--require", "framework")
    assert result.code == 0, result.text + result.errors
    # What is asked only when the start fails.
    machine.set(CUINIT_RC=1).run("--framework", "plain")
    return [json.loads(line) for line in sorted(set(file.read_text().splitlines()))]


def misfits(calls: list[Call], headers: Iterable[str], include: Iterable[Path], folder: Path) -> list[str]:
    """Return what does not fit the headers among the calls of functions that these headers declare."""
    found = []
    for header in headers:
        own = [call for call in calls if header_of(call["name"]) == header]
        assert own, f"no call of a function of {header}"
        found += untrue(header, [claim for call in own for claim in claims(call)], include, folder)
    return found


def claims(call: Call) -> Iterator[str]:
    """Yield what has to be true for a call to be right, as constant expressions of C++."""
    name, named = call["name"], NAMED.get(call["name"], {})
    given = []
    for position, one in enumerate(call["arguments"]):
        kind = "ENUM" if position in named else one["kind"].upper()
        given.append(f"given<{kind}, {one['size']}, {one['target']}, {one.get('item', 0)}>")
    yield f"function<decltype({name})>::takes<{', '.join([str(call['answer']), *given])}>()"
    for position, names in named.items():
        value = call["arguments"][position]["value"]
        yield " || ".join(f"{value} == {one}" for one in ((names,) if isinstance(names, str) else names))


_PROGRAM = """
#include <type_traits>
#include <%s>

// The size of what a pointer leads to, 0 where the header does not say.
template <class T, class = void> struct size_of { static constexpr unsigned long value = 0; };
template <class T> struct size_of<T, decltype(void(sizeof(T)))> {
    static constexpr unsigned long value = std::is_function<T>::value || std::is_void<T>::value ? 0 : sizeof(T);
};
enum kind { POINTER, ENUM, FLOAT, INT };
// An argument as it is given; ITEM is the size of an item where the pointer leads to an array.
template <kind KIND, unsigned long SIZE, unsigned long TARGET, unsigned long ITEM> struct given {
    template <class T> static constexpr bool fits() {
        constexpr kind wanted = std::is_pointer<T>::value ? POINTER : std::is_enum<T>::value ? ENUM
            : std::is_floating_point<T>::value ? FLOAT : INT;
        if (KIND != wanted || SIZE != sizeof(T)) return false;
        constexpr unsigned long target = size_of<typename std::remove_pointer<T>::type>::value;
        return wanted != POINTER || !TARGET || target <= 1 || target == TARGET || target == ITEM;
    }
};
template <class F> struct function;
template <class R, class... A> struct function<R(A...)> {
    template <unsigned long ANSWER, class... G> static constexpr bool takes() {
        if constexpr (sizeof...(A) != sizeof...(G)) return false;
        else return sizeof(R) == ANSWER && (G::template fits<A>() && ...);
    }
};
"""


def untrue(header: str, claims: list[str], include: Iterable[Path], folder: Path) -> list[str]:
    """Return the claims about a header that a C++ compiler finds untrue. include: the headers' folders.

    Raises AssertionError with the compiler's words for a name that the header does not declare.
    """
    source = folder / "claims.cpp"
    asserted = [f'static_assert({claim}, "{number}");' for number, claim in enumerate(claims)]
    source.write_text("\n".join([_PROGRAM % header, *asserted]))
    # One header at a time: nccl.h brings the overloads of cuda_runtime.h, which have no single type.
    command = ["g++", "-std=c++17", "-fsyntax-only", *(f"-I{path}" for path in include), source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = [line.removeprefix("static assertion failed: ") for line in re.findall("error: (.*)", done.stderr)]
    assert all(map(str.isdigit, errors)), f"{header}: {errors}"
    return [claims[int(number)] for number in errors]
