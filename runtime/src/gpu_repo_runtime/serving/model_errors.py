"""What an error of the owner's model means for a request."""

import logging
import random

from .. import device
from ..inputs import InvalidInput
from ..words import first_line, words_of
from .errors import DeviceLost, InvalidRequest, OutOfMemory, ServiceError

log = logging.getLogger(__name__)


def classify(error: BaseException, index: int | None) -> ServiceError:
    """Return what an error of the model means; log the traceback if one input alone raised it.

    ``index`` is the place of that input in its request.
    """
    if isinstance(error, InvalidInput):
        return InvalidRequest.at(index, words_of(error) or "the model rejects this input")
    if device.is_device_lost(error):
        return DeviceLost(f"{type(error).__name__}: {first_line(error)}")
    if device.is_out_of_memory(error):
        # Only the library's own message: that of the owner's code may contain what a client sent.
        what = ": ".join(filter(None, (type(error).__name__, first_line(device.reported(error)))))
        log.warning("out of memory: trying with less", extra={"fields": {"error": what}})
        return OutOfMemory("not even one input fits into the memory that is left", retry_after=5)
    name = f"{random.getrandbits(32):08x}"
    if index is not None:
        log.error("the model failed on an input", exc_info=error, extra={"fields": {"error": name}})
    detail = f"the model failed on instances.{index}; the log has the traceback of error {name}"
    return ServiceError.at(index, f"the model raised {type(error).__name__}", "prediction_failed", detail)
