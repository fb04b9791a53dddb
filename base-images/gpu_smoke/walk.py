"""The walk: which probes run together in a child process, and the layers in the order of the stack."""

from __future__ import annotations

import time
from typing import Callable

from . import isolate
from .isolate import Step
from .spec import GROUPS, LayerSpec, Probe, all_layers
from .verdicts import FAIL, SKIP, Context, Layer, fault_finding


def gather(context: Context, progress: Callable[[str], None]) -> None:
    """Run every probe and fill ``context.facts``; ``progress`` is called with the names of each group."""
    image = context.options.mode == "image"
    for group in GROUPS:
        # One child, one CUDA context: a crash in one library starts a new child for the rest.
        chosen = {
            spec.name: _bound(context, spec.probe)
            for spec in all_layers()
            if spec.group == group and spec.probe and not (image and spec.needs_driver)
        }
        if chosen:
            progress(", ".join(list(chosen)[:3]))
            isolate.run(chosen, context.options.timeout_s, context.facts)


def _bound(context: Context, probe: Probe) -> Step:
    return lambda session: probe(context, session)


def judge(context: Context) -> list[Layer]:
    """Turn the facts into layers, from the bottom of the stack to its top."""
    layers = []
    for spec in all_layers():
        began = time.monotonic()
        layer = _guarded(spec, context)
        layer.seconds = round(context.fact(layer.name, "seconds", 0.0) + time.monotonic() - began, 3)
        if context.options.mode == "image" and spec.needs_driver:
            layer = Layer(layer.name, layer.title, "", SKIP, "image mode: needs no driver")
        layers.append(layer)
    return layers


def _guarded(spec: LayerSpec, context: Context) -> Layer:
    """Judge one layer; an answer that no rule foresaw becomes a finding instead of a traceback."""
    try:
        return spec.judge(context)
    except Exception as error:
        fault = {"kind": "exception", "error": f"{type(error).__name__}: {error}"}
        return Layer(spec.name, spec.name, "driver", FAIL, findings=[fault_finding(context, fault)])
