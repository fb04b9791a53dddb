"""Layer collective: shared memory for workers, and an NCCL all-reduce over the chosen GPUs."""

from __future__ import annotations

import ctypes
import math

from .. import explanations, hardware
from ..calls import Api, CallFailed, open_library
from ..isolate import Facts, Session
from ..numbers import named
from ..spec import LayerSpec
from ..verdicts import SKIP, Context, Layer, finding
from . import matrix_product, runtime
from .kernels import usable

NAME, TITLE, LEVEL = "collective", "several GPUs", "gpu"
ENOUGH_SHM = 1 << 30
ELEMENTS = 1024
FLOAT32, SUM = 7, 0


def probe(context: Context, session: Session) -> Facts:
    """Facts: ``gpus``, and with two or more ``rc``, ``call``, ``wrong`` (wrong values over all GPUs)."""
    count = usable(context)
    facts: Facts = {"gpus": count}
    if count < 2:
        return facts
    facts.update(rc=0, call="", wrong=0)
    library, opened = open_library(context, session, "libnccl.so.2", wheels=True)
    if library is None:
        return {**facts, "absent": opened["error"]}
    cudart = ctypes.CDLL(context.fact(runtime.NAME, "path") or runtime.sonames(context)[0])
    try:
        facts["wrong"] = _all_reduce(Api(library, session, "NCCL"), Api(cudart, session, "libcudart"), count)
    except CallFailed as error:
        facts.update(rc=error.rc, call=error.call)
    return facts


def _all_reduce(nccl: Api, cudart: Api, count: int) -> int:
    """Sum rank + 1 over all ranks; return how many of the values are wrong."""
    ranks = (ctypes.c_void_p * count)()
    nccl.check("ncclCommInitAll", ranks, ctypes.c_int(count), None)
    devices = [matrix_product.Device(cudart) for _ in range(count)]
    buffers = []
    for rank, device in enumerate(devices):
        cudart.check("cudaSetDevice", ctypes.c_int(rank))
        buffers.append(device.put([float(rank + 1)] * ELEMENTS))
    nccl.check("ncclGroupStart")
    for rank, buffer in enumerate(buffers):
        arguments = (buffer, buffer, ctypes.c_size_t(ELEMENTS), ctypes.c_int(FLOAT32), ctypes.c_int(SUM))
        nccl.check("ncclAllReduce", *arguments, ctypes.c_void_p(ranks[rank]), None)
    nccl.check("ncclGroupEnd")
    wanted, wrong = count * (count + 1) / 2, 0
    for rank, (device, buffer) in enumerate(zip(devices, buffers, strict=False)):
        cudart.check("cudaSetDevice", ctypes.c_int(rank))
        wrong += sum(not math.isclose(value, wanted) for value in device.get(buffer, ELEMENTS))
        device.free()
        nccl.check("ncclCommDestroy", ctypes.c_void_p(ranks[rank]))
    return wrong


def evaluate(context: Context) -> Layer:
    """Decide on /dev/shm, the number of GPUs and the all-reduce."""
    layer = Layer(NAME, TITLE, LEVEL)
    facts = context.facts.get(NAME, {})
    gpus, asked = facts.get("gpus") or 0, context.options.gpus
    listed = len(context.fact("driver-init", "devices") or [])
    if facts.get("fault"):
        layer.findings.append(explanations.explain_death(context, facts["fault"], "libnccl.so.2", "GS905"))
        return layer.settle()
    if not listed:
        layer.state, layer.summary = SKIP, "no usable GPU"
        return layer.settle()
    if asked > listed:
        evidence = f"--gpus {asked}, {listed} visible"
        layer.findings.append(finding(context, "GS904", evidence, have=listed, want=asked))
    failed = bool(facts.get("rc") or facts.get("wrong"))
    shm = context.fact("device-nodes", "shm")
    if shm and shm[0] < ENOUGH_SHM:
        evidence = f"/dev/shm has {shm[0] >> 20} MiB"
        layer.findings.append(finding(context, "GS901", evidence, "error" if failed and gpus > 1 else "warning"))
    if facts.get("rc"):
        source = "cuda" if facts["call"].startswith("cuda") else "nccl"
        told = f"{facts['call']} gave {named(source, facts['rc'])}"
        layer.findings.append(hardware.without_imex(context, told) or finding(context, "GS902", told))
    if facts.get("wrong"):
        layer.findings.append(finding(context, "GS903", f"{facts['wrong']} of {gpus * ELEMENTS} values are wrong"))
    layer.summary = f"all-reduce over {gpus} GPUs is right" if gpus > 1 else "one GPU, nothing to reduce"
    if "absent" in facts:
        _without_nccl(context, layer, gpus, facts["absent"])
    return layer.settle()


def _without_nccl(context: Context, layer: Layer, gpus: int, error: str) -> None:
    """NCCL that nobody promises is neither a fault nor a pass."""
    layer.summary = f"{gpus} GPUs, no all-reduce: NCCL is not here"
    if "nccl" in context.row.libraries:
        layer.findings.append(finding(context, "GS902", error))
    else:
        layer.state, layer.level = SKIP, ""


LAYERS = (LayerSpec(NAME, 150, evaluate, probe, "gpu", workload=True),)
