"""The service as its batcher sees it: what shares a batch, and what an error of the model means."""

import logging
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import device
from ..inputs import InvalidInput
from ..words import first_line, words_of
from .choice import Choice
from .errors import (
    EXIT_DEVICE_LOST,
    DeviceLost,
    InputTooLarge,
    InvalidRequest,
    OutOfMemory,
    PredictionFailed,
    ServiceError,
)

if TYPE_CHECKING:
    from .service import Service

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Errand:
    """A function of the owner to be called in the model's thread; no two share a batch."""

    function: Callable[[], Any]


class Engine:
    """See Owner."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self.batch_done = service.metrics.batch_done

    def predict(self, items: list[Any], group: Hashable) -> Sequence[Any]:
        """Call the model with inputs of the same parameters, or do an errand of the owner."""
        if isinstance(group, Errand):
            group.function()
            return items
        started = time.perf_counter()
        answers = self._service.interface.call(items, group.parameters if isinstance(group, Choice) else None)
        if self._service.tracing:
            self._service.tracing.model_called(started, len(items))
        return answers

    def classify(self, error: BaseException, index: int | None) -> ServiceError:
        """Sort an error of the model; the log gets the traceback when one text alone raised it."""
        if device.is_device_lost(error):
            return DeviceLost(f"{type(error).__name__}: {first_line(error)}")
        if device.is_out_of_memory(error):
            # Not all the words of the error: those of the model's own code may hold what a client sent.
            what = ": ".join(filter(None, (type(error).__name__, first_line(device.reported(error)))))
            log.warning("out of memory: trying with less", extra={"fields": {"error": what}})
            return OutOfMemory("not even one input fits into the memory that is left", retry_after=5)
        if isinstance(error, InvalidInput):
            words = words_of(error) or "the model rejects this input"
            reason = [{"field": f"instances.{index}", "reason": words}]
            return InvalidRequest(f"instances.{index}: {words}", errors=reason)
        if index is not None:
            log.error("the model failed on an input", exc_info=error)
        reason = [{"field": f"instances.{index}", "reason": f"the model raised {type(error).__name__}"}]
        return PredictionFailed(f"the model failed on instances.{index}; the log has the traceback", errors=reason)

    def too_large(self, index: int) -> ServiceError:
        """Name the input."""
        reason = [{"field": f"instances.{index}", "reason": "the model ran out of memory with this input alone"}]
        return InputTooLarge(f"instances.{index} does not fit into memory; a smaller one may", errors=reason)

    def release(self) -> None:
        """Give cached device memory back."""
        device.release(self._service.device)

    def device_lost(self, error: DeviceLost) -> None:
        """Turn liveness red and let the process end."""
        log.critical("the device is lost; this process ends", extra={"fields": {"error": error.detail}})
        self._service.enter("failed", f"device lost: {error.detail}")
        self._service.on_end(EXIT_DEVICE_LOST)
