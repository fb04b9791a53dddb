"""Everything that can go wrong with a request, each with its HTTP status, and the exit codes of the process.

Exit codes: 0 stopped, and every accepted request was answered; 1 the model or service.py could not be loaded or ended
the process, or the port is in use; 69 GPU lost, a new process may work; 78 wrong setting, unusable GPU, or a model that
does not fit or breaks its contract; 143 time ran out before every accepted request was answered, or a second SIGTERM.
"""

import logging
import random

from starlette.exceptions import HTTPException

from .. import device
from ..inputs import InvalidInput
from ..words import first_line

log = logging.getLogger(__name__)

EXIT_CONFIGURATION = 78  # EX_CONFIG: a setting, the device or the model is wrong; starting again will not help
EXIT_DEVICE_LOST = 69  # EX_UNAVAILABLE: this process cannot use the GPU any more; a new process may
EXIT_UNFINISHED = 143  # 128 + SIGTERM: the time ran out before every accepted request had its answer

# The code of each error, for programs, with its status and its title, for people. docs/service.md explains them.
CODES = {
    "internal": (500, "Internal error"),
    "invalid_request": (422, "The request is not valid"),
    "invalid_tensor": (400, "The tensors are not valid"),
    "not_json": (415, "The body must be JSON"),
    "encoded": (415, "The content encoding is not supported"),
    "body_too_large": (413, "The body is too large"),
    "input_too_large": (413, "An input does not fit into memory"),
    "body_too_slow": (408, "The body did not arrive in time"),
    "client_gone": (499, "The client closed the connection"),  # for the log and the metrics
    "queue_full": (503, "Too many inputs are waiting"),
    "not_ready": (503, "The model is not ready"),
    "device_lost": (503, "The GPU was lost"),
    "out_of_memory": (503, "The input does not fit into memory"),
    "deadline_exceeded": (504, "The answer took too long"),
    "prediction_failed": (500, "The model failed on an input"),
}
# The rest of a slow body may never come.
HEADERS = {"encoded": {"accept-encoding": "identity"}, "body_too_slow": {"connection": "close"}}


class ServiceError(HTTPException):
    """An error with a code of CODES.

    ``retry_after`` (seconds) becomes the header of that name, ``errors`` names the fields that are wrong.
    """

    def __init__(
        self,
        detail: str,
        code: str = "internal",
        *,
        retry_after: int | None = None,
        errors: list[dict[str, str]] | None = None,
    ) -> None:
        self.status, self.title = CODES[code]
        retry = {"retry-after": str(retry_after)} if retry_after else {}
        super().__init__(self.status, detail, HEADERS.get(code, {}) | retry)
        self.code, self.retry_after, self.errors = code, retry_after, errors

    def __str__(self) -> str:
        return self.detail


def invalid_request(faults: list[dict[str, str]], hint: str = "") -> ServiceError:
    """Return the error of these faults; the first three that differ, and a hint, are its detail."""
    words = [*dict.fromkeys(f"{one['field']}: {one['reason']}" for one in faults)][:3] + [hint] * bool(hint)
    return ServiceError("; ".join(words), "invalid_request", errors=faults)


def invalid_input(index: int | None, reason: str, code: str, detail: str = "") -> ServiceError:
    """Return the error of one input of a request."""
    place = f"instances.{index}"
    return ServiceError(detail or f"{place}: {reason}", code, errors=[{"field": place, "reason": reason}])


class StartRefused(RuntimeError):
    """The service must not start; the message says why and what to do."""


def of_model(error: BaseException, index: int | None) -> ServiceError:
    """Return what an error of the owner's model means; log the traceback if one input alone raised it.

    ``index`` is the place of that input in its request.
    """
    if isinstance(error, InvalidInput):
        return invalid_input(index, str(error) or "the model rejects this input", "invalid_request")
    if device.is_device_lost(error):
        return ServiceError(f"{type(error).__name__}: {first_line(error)}", "device_lost")
    if device.is_out_of_memory(error):
        # Only the library's own message: that of the owner's code may contain what a client sent.
        what = ": ".join(filter(None, (type(error).__name__, first_line(device.reported(error)))))
        log.warning("out of memory: trying with less", extra={"fields": {"error": what}})
        return ServiceError("not even one input fits into the memory that is left", "out_of_memory", retry_after=5)
    name = f"{random.getrandbits(32):08x}"
    if index is not None:
        log.error("the model failed on an input", exc_info=error, extra={"fields": {"error": name}})
    detail = f"the model failed on instances.{index}; the log has the traceback of error {name}"
    return invalid_input(index, f"the model raised {type(error).__name__}", "prediction_failed", detail)
