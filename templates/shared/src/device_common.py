class DeviceError(RuntimeError):
    """The GPU was asked for and cannot be used. The message says why and what to do."""


@dataclass(frozen=True)
class Memory:
    """Memory of a GPU in bytes; `used` and `peak` are this process's own."""

    used: int
    free: int
    total: int
    peak: int


def choose(requested: str = "auto") -> str:
    """Return "cuda" or "cpu" for the request "auto", "cuda" or "cpu".

    Raises DeviceError when "cuda" is asked for and cannot be used, ValueError for any other request.
    """
    if requested not in ("auto", "cuda", "cpu"):
        raise ValueError(f"device {requested!r} is unknown: take auto, cuda or cpu")
    missing = "" if requested == "cpu" else _why_no_gpu()
    if requested == "cuda" and missing:
        raise DeviceError(
            f"no GPU can be used: {missing}; 'gpu-smoke --require gpu' in the image (from outside: "
            "'RUN_IN=docker scripts/smoke --require gpu') tells the cause and the fix"
        )
    return "cpu" if requested == "cpu" or missing else "cuda"


def reason(device: str) -> str:
    """Say in a few words why `device` ("cuda" or "cpu") is used."""
    if device == "cuda":
        return f"cuda: {describe(device)['name']}"
    missing = _why_no_gpu()
    return f"cpu: {missing}" if missing else "cpu: asked for"


def _said(error: BaseException) -> str:
    """Return what a library or the driver said, "" for an exception of Python itself: that may repeat an input."""
    return str(error) if type(error).__module__ != "builtins" or type(error) is RuntimeError else ""
