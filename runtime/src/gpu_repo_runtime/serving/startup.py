"""What happens before the first request: choose the device, load the model, measure memory, warm up, check."""

import gc
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from .. import device, weights
from ..contract import ran
from ..device import placement
from ..interface import Interface, WrongAnswer
from ..weights import Lock
from ..words import first_line
from .errors import StartRefused
from .memory_plan import Gauge, Plan, make_plan
from .settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Started:
    """The device in use (``about`` as device.describe gives it), the memory plan and the seconds it all took."""

    device: str
    about: dict[str, str]
    plan: Plan
    seconds: float
    weights: Lock | None = None


def start(interface: Interface, settings: Settings, report: Callable[[str], None] = lambda _: None) -> Started:
    """Load and warm the model. Raises DeviceError (no such device) or StartRefused (does not fit).

    ``report`` gets a sentence when a phase begins.
    """
    started = time.perf_counter()
    name = device.choose(settings.device)
    about = device.describe(name)
    log.info("device chosen", extra={"fields": {**about, "why": device.reason(name)}})
    gauge = Gauge(
        partial(device.memory, name),
        partial(device.reset_peak, name),
        partial(device.release, name),
        device.is_out_of_memory,
    )
    before = _load(interface.model, name, gauge)
    check_placement(interface.model, name, settings)
    examples = interface.examples()
    if interface.size:
        ran(interface.size(examples[0]), f"{interface.file}: Model.size")
    report("the memory of a call is being measured")
    longest = _largest(interface, examples, settings.max_text_chars)
    limit = settings.batch_limit(interface.table)
    plan = make_plan(interface.call, gauge, longest, limit, settings.memory_margin, before)
    log.info("memory plan: %s", plan)
    report(f"the model is being warmed up with {plan.batch} examples")
    for count in (1, plan.batch):
        fits = _warm_up(interface, examples, count, gauge)
    # What exists now lives as long as the process: the garbage collector need not walk it again and again.
    gc.collect()
    gc.freeze()
    seconds = time.perf_counter() - started
    return Started(name, about, replace(plan, batch=fits), seconds, weights.used(interface.model))


def _load(model: Any, name: str, gauge: Gauge) -> int:
    """Load the model; returns the bytes that this process held on the device before."""
    memory = gauge.memory()
    try:
        ran(weights.load(model, name), "Model.load")
    except weights.WeightsError as error:
        raise StartRefused(str(error)) from error
    except Exception as error:
        if not gauge.is_out_of_memory(error):
            raise
        where = "the host's memory ran out"
        if memory:
            where = f"{memory.free / 1e6:,.0f} of {memory.total / 1e6:,.0f} MB were free when its loading began"
        raise StartRefused(f"the model does not fit on the device: {where} ({first_line(error)})") from error
    return memory.used if memory else 0


def check_placement(model: Any, name: str, settings: Settings) -> None:
    """Check the device of the loaded model. Raises StartRefused if a GPU was requested and it is on the CPU."""
    for faults in placement.left_on_cpu(model) if name != "cpu" else ():
        if settings.device == name:
            raise StartRefused(f"DEVICE={name}, but {faults}")
        log.warning("a GPU is here, but %s, or set DEVICE=cpu", faults)


def _warm_up(interface: Interface, examples: list[Any], size: int, gauge: Gauge) -> int:
    """Run a batch once, halved until it fits; returns the size that does. Raises StartRefused."""
    try:
        check(interface, (examples * size)[:size])
        return size
    except Exception as error:
        if not gauge.is_out_of_memory(error):
            raise
        if size == 1:
            raise StartRefused(f"the model runs out of memory with a single input ({first_line(error)})") from error
    gauge.release()
    log.warning("out of memory with %d inputs: trying %d", size, size // 2)
    return _warm_up(interface, examples, size // 2, gauge)


def _largest(interface: Interface, examples: list[Any], characters: int) -> Any:
    """The input that takes most memory: a text as long as a request may have, else the largest of the examples."""
    if interface.is_text:
        text = " ".join(examples) + " "
        return (text * (characters // len(text) + 1))[:characters]
    return max(examples, key=interface.size or (lambda one: len(interface.inputs.dump_json(one))))


def check(interface: Interface, inputs: list[Any]) -> None:
    """Check the first answers of a model against its contract. Raises StartRefused."""
    try:
        interface.json(interface.checked(interface.call(inputs)))
    except WrongAnswer as error:
        raise StartRefused(f"{interface.file}: {error}") from error
