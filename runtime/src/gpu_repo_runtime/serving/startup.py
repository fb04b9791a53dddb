"""What happens before the first request: choose the device, load the model, measure memory, warm up, check."""

import gc
import logging
import math
import os
import time
from dataclasses import dataclass, replace
from typing import Any

from .. import device
from ..contract import Model
from ..cores import usable_cores
from ..device import placement
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


def start(model: Model, settings: Settings) -> Started:
    """Load and warm ``model``. Raises DeviceError (no such device) or StartRefused (does not fit)."""
    started = time.perf_counter()
    name = device.choose(settings.device)
    about = device.describe(name)
    log.info("device chosen", extra={"fields": {**about, "why": device.reason(name)}})
    gauge = Gauge(
        lambda: device.memory(name),
        lambda: device.reset_peak(name),
        lambda: device.release(name),
        device.is_out_of_memory,
    )
    before = _load(model, name, gauge)
    check_placement(model, name, settings)
    examples = list(model.examples)
    longest = stretch(examples, settings.max_text_chars)
    plan = make_plan(
        model.predict, gauge, longest, most=settings.max_batch_size, margin=settings.memory_margin, before=before
    )
    log.info("memory plan: %s", plan)
    _answer_one(model, examples[:1], gauge)
    plan = replace(plan, batch=_warm_up(model, examples, plan.batch, gauge))
    # What exists now lives as long as the process: the garbage collector need not walk it again and again.
    gc.collect()
    gc.freeze()
    return Started(name, about, plan, time.perf_counter() - started)


def _load(model: Model, name: str, gauge: Gauge) -> int:
    """Load the model; returns the bytes that this process held on the device before."""
    memory = gauge.memory()
    try:
        model.load(name)
    except Exception as error:
        if not gauge.is_out_of_memory(error):
            raise
        free = (
            f"{memory.free / 1e6:,.0f} of {memory.total / 1e6:,.0f} MB were free"
            if memory
            else "the host's memory ran out"
        )
        raise StartRefused(f"the model does not fit on the device: {free} when its loading began ({error})") from error
    return memory.used if memory else 0


def check_placement(model: Any, name: str, settings: Settings) -> None:
    """Look where the loaded model is. Raises StartRefused for one on the CPU when DEVICE=cuda; else warns."""
    for faults in placement.left_on_cpu(model) if name == "cuda" else ():
        if settings.device == "cuda":
            raise StartRefused(f"DEVICE=cuda, but {faults}")
        log.warning("a GPU is here, but %s, or set DEVICE=cpu", faults)
    if usable_cores() < (os.cpu_count() or 1):
        for path in placement.unlimited_sessions(model):
            log.warning("%s starts a thread for each core of the machine: use gpu_repo_runtime.onnx.session", path)


def _answer_one(model: Model, texts: list[str], gauge: Gauge) -> None:
    try:
        check(model.predict(texts), 1)
    except Exception as error:
        if not gauge.is_out_of_memory(error):
            raise
        raise StartRefused(f"the model runs out of memory with a single text ({error})") from error


def _warm_up(model: Model, examples: list[str], size: int, gauge: Gauge) -> int:
    """Run a full batch once, halved until it fits; returns the size that does."""
    try:
        check(model.predict((examples * size)[:size]), size)
        return size
    except Exception as error:
        if size == 1 or not gauge.is_out_of_memory(error):
            raise
    gauge.release()
    log.warning("out of memory with %d texts: trying %d", size, size // 2)
    return _warm_up(model, examples, size // 2, gauge)


def stretch(examples: list[str], characters: int) -> str:
    """A text of as many characters as a request may have in one text, made of the examples."""
    unit = " ".join(examples) + " "
    return (unit * (characters // len(unit) + 1))[:characters]


def check(answers: Any, count: int) -> None:
    """Hold the first answers of a model to its contract. Raises StartRefused naming what is wrong."""
    if not isinstance(answers, list) or len(answers) != count:
        what = f"{len(answers)} answers" if isinstance(answers, list) else type(answers).__name__
        raise StartRefused(
            f"Model.predict returned {what} for {count} texts: return a list with one dict for each text"
        )
    for answer in answers:
        if not isinstance(answer, dict):
            raise StartRefused(
                f"Model.predict returned a list of {type(answer).__name__}: return one dict for each text"
            )
        for key, value in answer.items():
            if not isinstance(key, str) or not _is_plain(value):
                raise StartRefused(
                    f"Model.predict returned {type(value).__name__} for {key!r}: "
                    "return str, bool, int, finite float or a list of finite floats (.item() and .tolist() make them)"
                )


def _is_plain(value: Any) -> bool:
    if type(value) is list:
        return all(type(part) is float and math.isfinite(part) for part in value)
    return type(value) in (str, bool, int) or (type(value) is float and math.isfinite(value))
