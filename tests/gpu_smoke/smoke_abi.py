"""What gpu-smoke hands to C functions, beside what the functions of NVIDIA's headers take."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
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
# The numbers that stand for names: function -> position of the argument -> the names, one of which it has to be.
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
    """Return, in words, what does not fit the headers among the calls of functions that these headers declare."""
    found = []
    for header in headers:
        own = [call for call in calls if header_of(call["name"]) == header]
        functions = sorted({call["name"] for call in own})
        assert functions, f"no call of a function of {header}"
        named = [names for function in functions for names in NAMED.get(function, {}).values()]
        constants = sorted({name for names in named for name in _all(names)})
        known = declared(header, functions, constants, include, folder)
        for call in own:
            found += _misfits(call, known["functions"][call["name"]], known["constants"])
    return found


def _all(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _misfits(call: Call, prototype: Any, constants: dict[str, int]) -> list[str]:
    name, given, taken = call["name"], call["arguments"], prototype["arguments"]
    if (len(given), call["answer"]) != (len(taken), prototype["answer"]):
        return [f"{name} takes {len(taken)} arguments and answers {prototype['answer']} bytes, called as {call}"]
    found = []
    for position, (have, want) in enumerate(zip(given, taken, strict=True)):
        where = f"argument {position} of {name}"
        if not _fits(have, want):
            found.append(f"{where} is {want}, given {have}")
        names = _all(NAMED.get(name, {}).get(position, ()))
        if names and have.get("value") not in [constants[one] for one in names]:
            found.append(f"{where} has to be {' or '.join(names)}, given {have.get('value')}")
        if want["kind"] == "enum" and not names:
            found.append(f"{where} is an enumeration, and NAMED does not say which name of it is meant")
    return found


def _fits(have: dict[str, Any], want: dict[str, Any]) -> bool:
    if (have["kind"], have["size"]) != (want["kind"].replace("enum", "int"), want["size"]):
        return False
    # Behind char * and void * there may be anything.
    return not (have["target"] and want["target"] > 1) or want["target"] in (have["target"], have.get("item"))


_PROGRAM = r"""
#include <cstdio>
#include <type_traits>
#include <%(header)s>

template <class T, class = void> struct size_of { static const unsigned long value = 0; };
template <class T> struct size_of<T, decltype(void(sizeof(T)))> {
    static const unsigned long value = std::is_function<T>::value || std::is_void<T>::value ? 0 : sizeof(T);
};
template <class T> void argument(const char *before) {
    const char *kind = std::is_pointer<T>::value ? "pointer" : std::is_enum<T>::value ? "enum"
        : std::is_floating_point<T>::value ? "float" : std::is_integral<T>::value ? "int" : "struct";
    unsigned long target = std::is_pointer<T>::value ? size_of<typename std::remove_pointer<T>::type>::value : 0;
    std::printf("%%s{\"kind\": \"%%s\", \"size\": %%lu, \"target\": %%lu}", before, kind, size_of<T>::value, target);
}
template <class F> struct function;
template <class R, class... A> struct function<R(A...)> {
    static void show(const char *name) {
        std::printf("\"%%s\": {\"answer\": %%lu, \"arguments\": [", name, (unsigned long)sizeof(R));
        const char *before = "";
        int all[] = {0, (argument<A>(before), before = ", ", 0)...};
        (void)all;
        std::puts("]},");
    }
};
void constant(const char *name, long long value) { std::printf("\"%%s\": %%lld,\n", name, value); }
int main() {
    std::puts("{\"functions\": {");
    %(functions)s
    std::puts("\"\": 0}, \"constants\": {");
    %(constants)s
    std::puts("\"\": 0}}");
}
"""


def declared(
    header: str, functions: Iterable[str], constants: Iterable[str], include: Iterable[Path], folder: Path
) -> dict[str, dict[str, Any]]:
    """Return `functions` (name -> prototype) and `constants` (name -> number), as a C++ compiler reads a header.

    What the header does not declare is an error of the compiler, which names it. include: the headers' folders.
    """
    source, program = folder / "abi.cpp", folder / "abi"
    parts = {
        "header": header,
        "functions": "\n    ".join(f'function<decltype({name})>::show("{name}");' for name in functions),
        "constants": "\n    ".join(f'constant("{name}", {name});' for name in constants),
    }
    source.write_text(_PROGRAM % parts)
    # One header at a time: nccl.h brings the overloads of cuda_runtime.h, which have no single type.
    command = ["g++", "-std=c++14", *(f"-I{path}" for path in include), "-o", program, source]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, f"{header}: {built.stderr[:3000]}"
    told = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {kind: {name: what for name, what in found.items() if name} for kind, found in json.loads(told).items()}
