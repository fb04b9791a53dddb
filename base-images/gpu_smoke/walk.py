"""The walk: which probes run together in a child process, and the layers in the order of the stack."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from . import isolate
from .isolate import Step
from .spec import GROUPS, LayerSpec, Probe, all_layers
from .verdicts import FAIL, SKIP, Context, Layer, fault_finding


def gather(context: Context, show: Callable[[list[str]], None]) -> None:
    """Run every probe and fill ``context.facts``; ``show`` is told which layers are asked."""
    with contextlib.ExitStack() as walk:
        for group in GROUPS:
            # Without persistence mode a GPU stops with its last user: who opened the nodes first keeps them open.
            _gather_group(context, group, show, walk if group == "host" else None)


def _gather_group(
    context: Context, group: str, show: Callable[[list[str]], None], stay: contextlib.ExitStack | None
) -> None:
    # One child, one start of the driver: a crash in one library starts a new child for the rest.
    image = context.options.mode == "image"
    chosen = {}
    for spec in all_layers():
        if spec.group == group and spec.probe and spec.wanted(context) and not (image and spec.needs_driver):
            if spec.idle(context):
                context.facts[spec.name] = {"not_run": spec.idle(context)}
            else:
                chosen[spec.name] = _bound(context, spec.probe)
    if chosen:
        show(list(chosen))
        isolate.run(chosen, lambda: patience(context), context.facts, stay)


# A machine where one call hung is given this share of the time for each call after it.
HURRIED, LEAST_S = 0.1, 1.0


def patience(context: Context) -> float:
    """Return how many seconds a step may take: once a call has hung, others that hang are not waited for as long."""
    whole = context.options.timeout_s
    hung = any(facts.get("fault", {}).get("kind") == "timeout" for facts in context.facts.values())
    return min(whole, max(LEAST_S, whole * HURRIED)) if hung else whole


def _bound(context: Context, probe: Probe) -> Step:
    return lambda session: probe(context, session)


def evaluate(context: Context) -> list[Layer]:
    """Turn the facts into layers, from the bottom of the stack to its top."""
    layers = []
    for spec in all_layers():
        if not spec.wanted(context):
            continue
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
        return spec.evaluate(context)
    except Exception as error:
        fault = {"kind": "exception", "error": f"{type(error).__name__}: {error}"}
        return Layer(spec.name, spec.name, "driver", FAIL, findings=[fault_finding(context, fault)])
