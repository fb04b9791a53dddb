"""Compile a network and a kernel of one's own, as an owner would; print what came out as one line of JSON."""

import json
import time
from collections.abc import Callable

import torch
import triton
import triton.language as tl


@triton.jit
def add(left, right, out, count, BLOCK: tl.constexpr):
    """Add two vectors of `count` numbers."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(left + at, at < count) + tl.load(right + at, at < count), at < count)


def milliseconds(call: Callable[[], object], calls: int = 200) -> float:
    """Return the mean time of a call, after twenty."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    return round((time.perf_counter() - began) / calls * 1e3, 4)


def network() -> dict[str, object]:
    """Return the largest difference and the times of a chain of pointwise operations, which compiling fuses."""

    def chain(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(torch.nn.functional.gelu(x * 2 + 1) * torch.sigmoid(x), x.shape[-1:])

    x, compiled = torch.randn(8192, 4096, device="cuda"), torch.compile(chain, fullgraph=True)
    began = time.perf_counter()
    difference = (compiled(x) - chain(x)).abs().max().item()
    first = round(time.perf_counter() - began, 1)
    times = {"eager_ms": milliseconds(lambda: chain(x)), "compiled_ms": milliseconds(lambda: compiled(x))}
    return {"difference": difference, "first_call_s": first} | times


def kernel() -> dict[str, object]:
    """Return whether a kernel of one's own computes, or the last line of its error."""
    left, right = torch.randn(2, 100_000, device="cuda")
    out = torch.empty_like(left)
    try:
        add[(triton.cdiv(100_000, 1024),)](left, right, out, 100_000, BLOCK=1024)
    except Exception as error:  # what a missing compiler raises differs by version
        return {"error": str(error).strip().splitlines()[-1][:300]}
    return {"right": bool(torch.equal(out, left + right))}


if __name__ == "__main__":
    versions = {"torch": torch.__version__, "triton": triton.__version__}
    print(json.dumps(versions | {"torch.compile": network(), "kernel of one's own": kernel()}))
