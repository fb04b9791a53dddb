"""The calls of the owner's model, and what its errors mean for a request."""

import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import device
from ..inputs import InvalidInput
from ..interface import Interface
from ..words import first_line, words_of
from .call import Batch
from .errors import DeviceLost, InputTooLarge, InvalidRequest, OutOfMemory, PredictionFailed, ServiceError
from .metrics import Metrics

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class OwnerCall:
    """A function of the owner that runs in the model's thread; it shares its batch with nothing."""

    function: Callable[[], Any]


@dataclass(frozen=True)
class Choice:
    """The parameters of a request, which decide with whom it shares a batch.

    ``key`` is Interface.parameters_key: 1, 1.0 and True compare equal, and their keys do not.
    """

    key: str
    parameters: Any = field(hash=False)


class ModelCalls:
    """See BatchHandler. ``device_name`` returns the device, ``on_device_lost`` ends the service."""

    def __init__(
        self,
        interface: Interface,
        metrics: Metrics,
        device_name: Callable[[], str],
        on_device_lost: Callable[[DeviceLost], None],
    ) -> None:
        self._interface, self._metrics, self._device_name = interface, metrics, device_name
        self._on_device_lost = on_device_lost

    def predict(self, items: list[Any], group: Hashable) -> Sequence[Any]:
        """Call the model with inputs of the same parameters, or a function of the owner."""
        if isinstance(group, OwnerCall):
            group.function()
            return items
        return self._interface.call(items, group.parameters if isinstance(group, Choice) else None)

    def classify(self, error: BaseException, index: int | None) -> ServiceError:
        """Return what an error of the model means; log the traceback if an input alone raised it."""
        if isinstance(error, InvalidInput):
            words = words_of(error) or "the model rejects this input"
            return InvalidRequest(f"instances.{index}: {words}", errors=_about(index, words))
        if device.is_device_lost(error):
            return DeviceLost(f"{type(error).__name__}: {first_line(error)}")
        if device.is_out_of_memory(error):
            # Only the library's own message: that of the owner's code may contain what a client sent.
            what = ": ".join(filter(None, (type(error).__name__, first_line(device.reported(error)))))
            log.warning("out of memory: trying with less", extra={"fields": {"error": what}})
            return OutOfMemory("not even one input fits into the memory that is left", retry_after=5)
        if index is not None:
            log.error("the model failed on an input", exc_info=error)
        reason = f"the model raised {type(error).__name__}"
        detail = f"the model failed on instances.{index}; the log has the traceback"
        return PredictionFailed(detail, errors=_about(index, reason))

    def too_large(self, index: int) -> ServiceError:
        """Return the error that names the input."""
        reason = _about(index, "the model ran out of memory with this input alone")
        return InputTooLarge(f"instances.{index} does not fit into memory; a smaller one may", errors=reason)

    def release(self) -> None:
        """Give cached device memory back."""
        device.release(self._device_name())

    def batch_done(self, batch: Batch, seconds: float) -> None:
        """Count the batch."""
        self._metrics.batch_done(batch, seconds)

    def device_lost(self, error: DeviceLost) -> None:
        """End the service."""
        self._on_device_lost(error)


def _about(index: int | None, reason: str) -> list[dict[str, str]]:
    return [{"field": f"instances.{index}", "reason": reason}]
