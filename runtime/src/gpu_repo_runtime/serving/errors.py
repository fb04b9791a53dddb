"""Everything that can go wrong with a request, each with its HTTP status, and the exit codes of the process."""

from typing import ClassVar

EXIT_CONFIGURATION = 78  # EX_CONFIG: a setting, the device or the model does not fit; starting again will not help
EXIT_DEVICE_LOST = 69  # EX_UNAVAILABLE: the GPU cannot be used any more by this process; a new one may work
EXIT_UNFINISHED = 143  # 128 + SIGTERM: the time ran out before every accepted request had its answer


class ServiceError(Exception):
    """An error with a place in the HTTP protocol.

    ``status`` is the HTTP status, ``code`` a word for programs, ``title`` a sentence for people;
    ``retry_after`` (seconds) becomes the header of that name, ``headers`` are sent with it.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"
    headers: ClassVar[dict[str, str]] = {}

    def __init__(
        self, detail: str, *, retry_after: int | None = None, errors: list[dict[str, str]] | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after = retry_after
        self.errors = errors


class InvalidRequest(ServiceError):
    """The body is JSON but not what /predict takes; ``errors`` names the fields."""

    status, code, title = 422, "invalid_request", "The request is not valid"


class InvalidTensor(ServiceError):
    """The tensors of a request do not fit each other, their heads or the model's Input."""

    status, code, title = 400, "invalid_tensor", "The tensors are not valid"


class NotJson(ServiceError):
    """The request does not say that its body is JSON."""

    status, code, title = 415, "not_json", "The body must be JSON"


class Encoded(ServiceError):
    """The body is compressed."""

    status, code, title = 415, "encoded", "The body must not be compressed"
    headers: ClassVar[dict[str, str]] = {"accept-encoding": "identity"}


class UnknownCoding(ServiceError):
    """The body is wrapped in something else than chunks (RFC 9112, section 6.1)."""

    status, code, title = 501, "unknown_coding", "The transfer coding is not known here"
    headers: ClassVar[dict[str, str]] = {"connection": "close"}


class BadHost(ServiceError):
    """HTTP/1.1 asks for exactly one header Host (RFC 9112, section 3.2)."""

    status, code, title = 400, "bad_host", "The request must name its host once"


class UpgradeAsked(ServiceError):
    """The request asks for another protocol, with which its body is lost on the way."""

    status, code, title = 400, "upgrade_asked", "Only HTTP/1.1 is spoken here"


class BodyTooLarge(ServiceError):
    """The body is larger than MAX_BODY_BYTES."""

    status, code, title = 413, "body_too_large", "The body is too large"


class BodyTooSlow(ServiceError):
    """The body was not complete within BODY_SECONDS."""

    status, code, title = 408, "body_too_slow", "The body did not arrive in time"
    headers: ClassVar[dict[str, str]] = {"connection": "close"}  # the rest of the body may never come


class ClientGone(ServiceError):
    """The client hung up; nobody reads the answer. 499 appears only in the log and the metrics."""

    status, code, title = 499, "client_gone", "The client closed the connection"


class QueueFull(ServiceError):
    """The texts do not fit into the queue now."""

    status, code, title = 503, "queue_full", "Too many inputs are waiting"


class NotReady(ServiceError):
    """The model is being loaded, or the service is stopping."""

    status, code, title = 503, "not_ready", "The model is not ready"


class DeviceLost(ServiceError):
    """The GPU does not answer any more and will not in this process."""

    status, code, title = 503, "device_lost", "The GPU was lost"


class OutOfMemory(ServiceError):
    """Not even a batch of one fits into memory."""

    status, code, title = 503, "out_of_memory", "The text does not fit into memory"


class InputTooLarge(ServiceError):
    """One input alone needs more memory than there is; another one may fit."""

    status, code, title = 413, "input_too_large", "An input does not fit into memory"


class DeadlineExceeded(ServiceError):
    """An accepted request was not answered within REQUEST_SECONDS."""

    status, code, title = 504, "deadline_exceeded", "The answer took too long"


class PredictionFailed(ServiceError):
    """The model raised for a text, or its answer cannot be sent."""

    status, code, title = 500, "prediction_failed", "The model failed on an input"


class StartRefused(RuntimeError):
    """The service must not start; the message says why and what to do."""
