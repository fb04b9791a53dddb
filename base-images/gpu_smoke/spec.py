"""What one layer of the stack declares of itself; every module of ``layers`` lists its own as ``LAYERS``."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from typing import NamedTuple

from .isolate import Facts, Session
from .verdicts import Context, Layer

Probe = Callable[[Context, Session], Facts]
# Probes of one group share a child process; the groups run in this order.
GROUPS = ("host", "gpu", "framework", "model")
ALL, WORKLOADS, NOTHING = "all", "workloads", "nothing"


class LayerSpec(NamedTuple):
    """One layer.

    ``order`` is its place in the stack, from the bottom. ``carries``: which layers above stand on it: all of them, the
    workloads (framework, collective, model), or none. ``independent_of`` names layers below that it does not stand on.
    A layer that is not ``wanted`` is not in the report. ``idle`` says why there is nothing to ask, for which no process
    is started.
    """

    name: str
    order: int
    evaluate: Callable[[Context], Layer]
    probe: Probe | None = None
    group: str = ""
    needs_driver: bool = True
    carries: str = NOTHING
    workload: bool = False
    independent_of: tuple[str, ...] = ()
    wanted: Callable[[Context], bool] = lambda context: True
    idle: Callable[[Context], str] = lambda context: ""

    def stands_on(self, below: LayerSpec) -> bool:
        """Say whether a fault of ``below`` explains one of this layer."""
        if below.name in self.independent_of or below.carries == NOTHING:
            return False
        return below.carries == ALL or self.workload


@functools.cache
def all_layers() -> tuple[LayerSpec, ...]:
    """Return every layer, from the bottom of the stack to its top."""
    from . import layers

    found: list[LayerSpec] = []
    for module in pkgutil.iter_modules(layers.__path__):
        found += getattr(importlib.import_module(f"{layers.__name__}.{module.name}"), "LAYERS", [])
    return tuple(sorted(found, key=lambda spec: spec.order))


def stands_on(above: str, below: str) -> bool:
    """Say whether a fault of the layer ``below`` explains one of the layer ``above``."""
    by_name = {spec.name: spec for spec in all_layers()}
    return by_name[above].stands_on(by_name[below])
