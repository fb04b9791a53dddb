"""The walk: which probes run together in a child process, and the layers in the order of the stack."""

from __future__ import annotations

import sys
import time
from typing import Callable

from . import isolate
from .isolate import Facts, Session, Step
from .layers import (
    collective,
    compatibility,
    driver_init,
    framework,
    kernels,
    memory,
    model,
    module,
    nodes,
    nvml,
    runtime,
    toolkit,
    user_driver,
)
from .layers import platform as platform_layer
from .verdicts import FAIL, SKIP, Context, Layer, fault_finding

Probe = Callable[[Context, Session], Facts]
HOST: dict[str, Probe] = {nodes.NAME: nodes.probe, module.NAME: module.probe}
NVML: dict[str, Probe] = {nvml.NAME: nvml.probe}
DRIVER: dict[str, Probe] = {user_driver.NAME: user_driver.probe, driver_init.NAME: driver_init.probe}
# One child, one CUDA context: a crash in one library starts a new child for the rest.
LIBRARIES: dict[str, Probe] = {
    runtime.NAME: runtime.probe,
    kernels.NAME: kernels.probe,
    memory.NAME: memory.probe,
    **{library.family: toolkit.probe(library) for library in toolkit.LIBRARIES},
    toolkit.COPIES: toolkit.probe_copies,
}
FRAMEWORK: dict[str, Probe] = {framework.NAME: framework.probe}
COLLECTIVE: dict[str, Probe] = {collective.NAME: collective.probe}
MODEL: dict[str, Probe] = {model.NAME: model.probe}
NODE_GROUPS = (HOST, NVML, DRIVER, LIBRARIES, COLLECTIVE, FRAMEWORK, MODEL)
NEEDS_DRIVER = {
    nodes.NAME, module.NAME, nvml.NAME, user_driver.NAME, driver_init.NAME, kernels.NAME, memory.NAME,
    compatibility.NAME, collective.NAME, model.NAME,
}  # fmt: skip
JUDGES: tuple[Callable[[Context], Layer], ...] = (
    platform_layer.judge,
    nodes.judge,
    module.judge,
    user_driver.judge,
    driver_init.judge,
    nvml.judge,
    runtime.judge,
    compatibility.judge,
    kernels.judge,
    memory.judge,
    *((lambda context, library=library: toolkit.judge(context, library)) for library in toolkit.LIBRARIES),
    toolkit.judge_copies,
    framework.judge,
    collective.judge,
    model.judge,
)


def gather(context: Context, progress: Callable[[str], None]) -> None:
    """Run every probe and fill ``context.facts``; ``progress`` is called with the names of each group."""
    image = context.options.mode == "image"
    for group in NODE_GROUPS:
        chosen = {name: probe for name, probe in group.items() if not (image and name in NEEDS_DRIVER)}
        if chosen:
            progress(", ".join(list(chosen)[:3]))
            isolate.run(
                {name: _bound(context, p) for name, p in chosen.items()}, context.options.timeout_s, context.facts
            )


def _bound(context: Context, probe: Probe) -> Step:
    return lambda session: probe(context, session)


def judge(context: Context) -> list[Layer]:
    """Turn the facts into layers, from the bottom of the stack to its top."""
    layers = []
    for judge_layer in JUDGES:
        began = time.monotonic()
        layer = _guarded(judge_layer, context)
        layer.seconds = round(context.fact(layer.name, "seconds", 0.0) + time.monotonic() - began, 3)
        if context.options.mode == "image" and layer.name in NEEDS_DRIVER:
            layer = Layer(layer.name, layer.title, "", SKIP, "image mode: needs no driver")
        layers.append(layer)
    return layers


def _guarded(judge_layer: Callable[[Context], Layer], context: Context) -> Layer:
    """Judge one layer; an answer that no rule foresaw becomes a finding instead of a traceback."""
    try:
        return judge_layer(context)
    except Exception as error:
        fault = {"kind": "exception", "error": f"{type(error).__name__}: {error}"}
        name = getattr(sys.modules[judge_layer.__module__], "NAME", "toolkit")
        return Layer(name, name, "driver", FAIL, findings=[fault_finding(context, fault)])
