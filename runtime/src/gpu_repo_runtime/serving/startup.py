"""What happens before the first request: choose the device, load the model, measure memory, warm up, check.

How many inputs fit on a GPU at once is measured with the largest inputs that the service accepts: the memory of the
weights, of a call and of one input. The largest batch is the one that leaves a margin free.
"""

import gc
import json
import logging
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .. import device, weights
from ..device import Memory, placement
from ..interface import Interface, WrongAnswer
from ..weights import Lock
from ..words import first_line
from .errors import StartRefused
from .settings import Settings

log = logging.getLogger(__name__)
GPU_SMOKE = "/usr/local/bin/gpu-smoke"  # the base image's own, whatever a package calls its scripts
GPU_SMOKE_SECONDS = 60.0


@dataclass(frozen=True)
class Gauge:
    """How the device is asked: ``memory`` gives None on a CPU, ``release`` gives cached memory back."""

    memory: Callable[[], Memory | None]
    reset_peak: Callable[[], None]
    release: Callable[[], None]


@dataclass(frozen=True)
class Started:
    """The device in use, as device.describe gives it, the largest batch and the seconds it all took."""

    about: dict[str, str]
    batch: int
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
    gauge = Gauge(partial(device.memory, name), partial(device.reset_peak, name), partial(device.release, name))
    before = _load(interface.model, name, gauge)
    check_placement(interface.model, name, settings)
    examples = interface.examples()
    report("the memory of a call is being measured")
    longest = _largest(interface, examples, settings.max_text_chars)
    limit = settings.batch_limit(interface.table)
    batch, why = make_plan(interface.call, gauge, longest, limit, settings.memory_margin, before)
    log.info("memory plan: %s", why)
    report(f"the model is being warmed up with {batch} examples")
    for count in (1, batch):
        fits = _warm_up(interface, examples, count, gauge)
    # What exists now lives as long as the process: the garbage collector need not walk it again and again.
    gc.collect()
    gc.freeze()
    seconds = time.perf_counter() - started
    return Started(about, fits, seconds, weights.used(interface.model))


def _load(model: Any, name: str, gauge: Gauge) -> int:
    """Load the model; returns the bytes that this process held on the device before."""
    memory = gauge.memory()
    try:
        weights.load(model, name)
    except weights.WeightsError as error:
        raise StartRefused(str(error)) from error
    except Exception as error:
        if device.is_out_of_memory(error):
            raise StartRefused(f"the model does not fit on the device ({first_line(error)})") from error
        raise
    return memory.used if memory else 0


def check_placement(model: Any, name: str, settings: Settings) -> None:
    """Check the device of the loaded model. Raises StartRefused if a GPU was requested and it is on the CPU."""
    for faults in placement.left_on_cpu(model) if name != "cpu" else ():
        if settings.device == name:
            raise StartRefused(f"DEVICE={name}, but {faults}")
        log.warning("a GPU is here, but %s, or set DEVICE=cpu", faults)


def _warm_up(interface: Interface, examples: list[Any], size: int, gauge: Gauge) -> int:
    """Run a batch once, halved until it fits; returns the size that does. Raises StartRefused."""
    while True:
        try:
            check(interface, (examples * size)[:size])
            return size
        except Exception as error:
            if not device.is_out_of_memory(error):
                raise
            if size == 1:
                raise StartRefused(f"the model runs out of memory with a single input ({first_line(error)})") from error
        gauge.release()
        log.warning("out of memory with %d inputs: trying %d", size, size // 2)
        size //= 2


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


def make_plan(
    predict: Callable[[list[Any]], object], gauge: Gauge, largest: Any, most: int, margin: float, before: int
) -> tuple[int, str]:
    """Measure ``predict`` at two batch sizes; return the largest batch up to ``most``, and the numbers it follows from.

    ``largest`` is the largest input, ``before`` the bytes in use before the model was loaded and ``margin`` the share
    of the whole memory to keep free. Raises StartRefused with the numbers when not even one input fits.
    """
    loaded = gauge.memory()
    if loaded is None:
        return most, f"CPU: batch size is MAX_BATCH_SIZE ({most})"
    gauge.release()
    loaded = gauge.memory() or loaded
    weights, reserve = max(0, loaded.used - before), int(margin * loaded.total)
    one = _peak(predict, gauge, [largest])
    if one is None:
        raise StartRefused(_refusal(weights, None, loaded, reserve))
    size, many = min(8, most), None
    while size > 1 and (many := _peak(predict, gauge, [largest] * size)) is None:
        size //= 2
    per_input = max(0, (many - one) // (size - 1)) if many else max(0, one - loaded.used)
    per_call = max(0, one - loaded.used - per_input)
    room = loaded.free - reserve - per_call
    if room < per_input or room < 0:
        raise StartRefused(_refusal(weights, per_call + per_input, loaded, reserve))
    fits = room // per_input if per_input else most
    if most > 1 and many is None:
        fits = 1
    fits = min(most, fits)
    return fits, (
        f"weights {_mb(weights)}, a call {_mb(per_call)} + {_mb(per_input)} for each input of full length, "
        f"{_mb(loaded.free)} of {_mb(loaded.total)} free, {_mb(reserve)} kept as margin: "
        f"at most {fits} inputs in a batch"
    )


def _peak(predict: Callable[[list[Any]], object], gauge: Gauge, inputs: list[Any]) -> int | None:
    """Most bytes in use during a second call (the first one pays for set-up); None when the memory is not enough."""
    try:
        predict(inputs)
        gauge.reset_peak()
        predict(inputs)
        memory = gauge.memory()
        return memory.peak if memory else None
    except Exception as error:
        if not device.is_out_of_memory(error):
            raise
    gauge.release()
    return None


def _refusal(weights: int, need: int | None, memory: Memory, reserve: int) -> str:
    needs = f"needs {_mb(need)}" if need is not None else "ran out of memory"
    return (
        f"not even one input fits on the GPU: the weights take {_mb(weights)}, {_mb(memory.free)} of "
        f"{_mb(memory.total)} are free, {_mb(reserve)} of that is margin, and one input of full length {needs}. "
        "Lower MAX_TEXT_CHARS or MEMORY_MARGIN, end what else runs on this GPU, or take a larger one"
    )


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def gpu_cause() -> dict[str, str]:
    """Return why no GPU can be used, as gpu-smoke finds it: code, title, evidence and fix; empty without gpu-smoke."""
    program = shutil.which(GPU_SMOKE) or shutil.which("gpu-smoke")
    if program is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [program, "--require", "gpu", "--json", str(report)]
        try:
            subprocess.run(command, check=False, capture_output=True, timeout=GPU_SMOKE_SECONDS)
            cause = json.loads(report.read_text())["cause"] or {}
        except (OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
            return {"title": f"gpu-smoke gave no cause: {error}"}
    return {key: str(cause[key]) for key in ("code", "title", "evidence", "fix") if key in cause}
