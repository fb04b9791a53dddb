"""Findings of the tensor cores: GS719 and GS720."""

from __future__ import annotations

from ..hands import by_another_gpu, by_host
from . import Code

CODES = [
    Code(
        id="GS719",
        layer="kernels",
        title="Tensor cores computed wrong numbers",
        symptom="half precision training gives NaN or does not converge; the same in float32 is right",
        cause="faulty tensor cores of the multiprocessors in the evidence; rarer: a driver that compiles wrongly",
        detect="matrix products of f16 with f32 sums (mma.sync) against plain Python; plain arithmetic is right there",
        fix=by_another_gpu("take it out of service."),
        apart=(
            "the same command again: the same few multiprocessors, it is the GPU; nearly all of them, and on another "
            "GPU of the same kind too, it is the driver"
        ),
        source="gpu-smoke",
    ),
    Code(
        id="GS720",
        layer="thorough",
        title="Tensor cores go wrong under load",
        symptom="losses jump or become NaN after minutes of training in half precision",
        cause=(
            "tensor cores that fail when they are warm or their voltage drops, on the multiprocessors that the "
            "evidence names; rarer: memory (GS716 beside it)"
        ),
        detect="--thorough: chains of matrix products of f16 with f32 sums (mma.sync), compared bit by bit each round",
        fix=by_host(
            (
                "look at power and cooling (`nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE`); take the GPU "
                "out of service."
            ),
            any=(
                "Look at power and cooling (`nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE`); take the GPU "
                "out of service."
            ),
        ),
        apart=(
            "the evidence: one multiprocessor, it is that one; many, with clocks lowered (GS411), it is power or "
            "cooling; GS716 beside it, the memory is the likelier"
        ),
        source="gpu-smoke",
    ),
]
