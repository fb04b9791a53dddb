"""Everything that can go wrong with a request, each with its HTTP status, and the exit codes of the process."""

from typing import Any, ClassVar

from starlette.exceptions import HTTPException

EXIT_CONFIGURATION = 78  # EX_CONFIG: a setting, the device or the model is wrong; starting again will not help
EXIT_DEVICE_LOST = 69  # EX_UNAVAILABLE: this process cannot use the GPU any more; a new process may
EXIT_UNFINISHED = 143  # 128 + SIGTERM: the time ran out before every accepted request had its answer


class ServiceError(HTTPException):
    """An error with a status.

    ``code`` is a word for programs, ``title`` a sentence for people, ``retry_after`` (seconds) becomes the header of
    that name, ``errors`` names the fields that are wrong.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"
    always: ClassVar[dict[str, str]] = {}  # headers

    def __init__(
        self, detail: str, *, retry_after: int | None = None, errors: list[dict[str, str]] | None = None
    ) -> None:
        retry = {"retry-after": str(retry_after)} if retry_after else {}
        super().__init__(self.status, detail, {**self.always, **retry})
        self.retry_after = retry_after
        self.errors = errors

    def __str__(self) -> str:
        return self.detail

    def __reduce__(self) -> Any:
        return type(self), (self.detail,), vars(self)


class InvalidRequest(ServiceError):
    """The body is JSON but not a valid request; ``errors`` names the fields."""

    status, code, title = 422, "invalid_request", "The request is not valid"


class InvalidTensor(ServiceError):
    """The tensors of a request do not match each other, their metadata or the model's Input."""

    status, code, title = 400, "invalid_tensor", "The tensors are not valid"


class NotJson(ServiceError):
    """The request does not declare its body as JSON."""

    status, code, title = 415, "not_json", "The body must be JSON"


class Encoded(ServiceError):
    """The body is compressed in a way that is not supported."""

    status, code, title = 415, "encoded", "The content encoding is not supported"
    always: ClassVar[dict[str, str]] = {"accept-encoding": "gzip"}


class BodyTooLarge(ServiceError):
    """The body is larger than MAX_BODY_BYTES."""

    status, code, title = 413, "body_too_large", "The body is too large"


class BodyTooSlow(ServiceError):
    """The body was not complete within BODY_SECONDS."""

    status, code, title = 408, "body_too_slow", "The body did not arrive in time"
    always: ClassVar[dict[str, str]] = {"connection": "close"}  # the rest of the body may never come


class ClientGone(ServiceError):
    """The client closed the connection. 499 appears only in the log and the metrics."""

    status, code, title = 499, "client_gone", "The client closed the connection"


class QueueFull(ServiceError):
    """The queue has no place for the inputs now."""

    status, code, title = 503, "queue_full", "Too many inputs are waiting"


class NotReady(ServiceError):
    """The model is being loaded, or the service is stopping."""

    status, code, title = 503, "not_ready", "The model is not ready"


class DeviceLost(ServiceError):
    """This process cannot use the GPU any more."""

    status, code, title = 503, "device_lost", "The GPU was lost"


class OutOfMemory(ServiceError):
    """Not even a batch of one input fits into memory."""

    status, code, title = 503, "out_of_memory", "The input does not fit into memory"


class InputTooLarge(ServiceError):
    """One input alone needs more memory than there is; another one may fit."""

    status, code, title = 413, "input_too_large", "An input does not fit into memory"


class DeadlineExceeded(ServiceError):
    """An accepted request was not answered within REQUEST_SECONDS."""

    status, code, title = 504, "deadline_exceeded", "The answer took too long"


class PredictionFailed(ServiceError):
    """The model raised an error for an input, or its answer is not an Output."""

    status, code, title = 500, "prediction_failed", "The model failed on an input"


class StartRefused(RuntimeError):
    """The service must not start; the message says why and what to do."""
