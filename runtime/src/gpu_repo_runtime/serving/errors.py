"""Everything that can go wrong with a request, each with its HTTP status, and the exit codes of the process.

Exit codes: 0 stopped, and every accepted request was answered; 1 the model or service.py could not be loaded or ended
the process, or the port is in use; 69 GPU lost, a new process may work; 78 wrong setting, unusable GPU, or a model that
does not fit or breaks its contract; 143 time ran out before every accepted request was answered, or a second SIGTERM.
"""

from typing import ClassVar, Self

from starlette.exceptions import HTTPException

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
    "client_gone": (499, "The client closed the connection"),  # only in the log and the metrics
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

    default: ClassVar[str] = "internal"

    def __init__(
        self, detail: str, code: str = "", *, retry_after: int | None = None, errors: list[dict[str, str]] | None = None
    ) -> None:
        self.code = code or self.default
        self.status, self.title = CODES[self.code]
        retry = {"retry-after": str(retry_after)} if retry_after else {}
        super().__init__(self.status, detail, HEADERS.get(self.code, {}) | retry)
        self.retry_after, self.errors = retry_after, errors

    def __str__(self) -> str:
        return self.detail

    @classmethod
    def at(cls, index: int | None, reason: str, code: str = "", detail: str = "") -> Self:
        """Return the error of one input of a request."""
        place = f"instances.{index}"
        return cls(detail or f"{place}: {reason}", code, errors=[{"field": place, "reason": reason}])


class InvalidRequest(ServiceError):
    """The body is JSON but not a valid request; ``errors`` names the fields."""

    default = "invalid_request"

    @classmethod
    def of(cls, faults: list[dict[str, str]], hint: str = "") -> Self:
        """Return the error of these faults; the first three that differ, and a hint, are its detail."""
        words = [*dict.fromkeys(f"{one['field']}: {one['reason']}" for one in faults)][:3] + [hint] * bool(hint)
        return cls("; ".join(words), errors=faults)


class ClientGone(ServiceError):
    """The client closed the connection."""

    default = "client_gone"


class DeviceLost(ServiceError):
    """This process cannot use the GPU any more."""

    default = "device_lost"


class OutOfMemory(ServiceError):
    """Not even a batch of one input fits into memory."""

    default = "out_of_memory"


class StartRefused(RuntimeError):
    """The service must not start; the message says why and what to do."""
