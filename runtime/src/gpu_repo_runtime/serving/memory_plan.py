"""How many inputs fit on the GPU at once, measured at start.

Weights, the memory of one input and the memory of a call are measured with the largest inputs that the
service accepts; the largest batch is the one that leaves a margin free.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..device import Memory
from .errors import StartRefused


@dataclass(frozen=True)
class Gauge:
    """How the device is asked: ``memory`` gives None on a CPU, ``release`` gives cached memory back."""

    memory: Callable[[], Memory | None]
    reset_peak: Callable[[], None]
    release: Callable[[], None]
    is_out_of_memory: Callable[[BaseException], bool]


@dataclass(frozen=True)
class Plan:
    """The largest batch and the bytes it follows from; ``weights`` is None where nothing was measured."""

    batch: int
    weights: int | None = None
    per_call: int = 0
    per_input: int = 0
    free: int = 0
    total: int = 0
    reserve: int = 0

    def __str__(self) -> str:
        if self.weights is None:
            return f"CPU: batch size is MAX_BATCH_SIZE ({self.batch})"
        return (
            f"weights {_mb(self.weights)}, a call {_mb(self.per_call)} + {_mb(self.per_input)} for each input of full "
            f"length, {_mb(self.free)} of {_mb(self.total)} free, {_mb(self.reserve)} kept as margin: "
            f"at most {self.batch} inputs in a batch"
        )


def make_plan(
    predict: Callable[[list[Any]], object], gauge: Gauge, largest: Any, most: int, margin: float, before: int
) -> Plan:
    """Measure ``predict`` at two batch sizes and choose the largest batch up to ``most``.

    ``largest`` is the largest input, ``before`` the bytes in use before the model was loaded and ``margin`` the share
    of the whole memory to keep free. Raises StartRefused with the numbers when not even one input fits.
    """
    loaded = gauge.memory()
    if loaded is None:
        return Plan(most)
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
    return Plan(min(most, fits), weights, per_call, per_input, loaded.free, loaded.total, reserve)


def _peak(predict: Callable[[list[Any]], object], gauge: Gauge, inputs: list[Any]) -> int | None:
    """Most bytes in use during a second call (the first one pays for set-up); None when the memory is not enough."""
    try:
        predict(inputs)
        gauge.reset_peak()
        predict(inputs)
        memory = gauge.memory()
        return memory.peak if memory else None
    except Exception as error:
        if not gauge.is_out_of_memory(error):
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
