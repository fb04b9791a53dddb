class DeviceError(RuntimeError):
    """The requested GPU cannot be used. The message gives the reason and what to do."""


{% if layout == 1 %}
@dataclass(frozen=True)
class Memory:
    """Memory of a GPU in bytes; `used` and `peak` are this process's own."""

    used: int
    free: int
    total: int
    peak: int


{% endif %}
def choose(requested: str = "auto") -> str:
    """Return "cuda" or "cpu" for the request "auto", the requested device for "cuda", "mps" (Apple's GPU) and "cpu".

    "auto" never takes Apple's GPU, which lacks some operations. Raises DeviceError when a GPU is requested and cannot
    be used, ValueError for any other request.
    """
    if requested not in ("auto", "cuda", "mps", "cpu"):
        raise ValueError(f"device {requested!r} is unknown: take auto, cuda, mps or cpu")
    if requested == "mps":
        if missing := _why_no_mps():
            raise DeviceError(f"Apple's GPU cannot be used: {missing}; DEVICE=cpu computes without it")
        return "mps"
    missing = "" if requested == "cpu" else _why_no_gpu()
    if requested == "cuda" and missing:
        raise DeviceError(
            f"no GPU can be used: {missing}; 'gpu-smoke --require gpu' in the image (from outside: "
            "'RUN_IN=docker scripts/smoke --require gpu') shows the cause and the fix"
        )
    return "cpu" if requested == "cpu" or missing else "cuda"
{% if layout == 1 %}


def reason(device: str) -> str:
    """Say in a few words why `device` ("cuda", "mps" or "cpu") is used."""
    if device != "cpu":
        return f"{device}: {describe(device)['name']}"
    missing = _why_no_gpu()
    apple = "" if _why_no_mps() else "; DEVICE=mps takes Apple's GPU"
    return f"cpu: {missing}{apple}" if missing else "cpu: requested"


def _said(error: BaseException) -> str:
    """Return what a library or the driver said, "" for an exception of Python itself: that may repeat an input."""
    return str(error) if type(error).__module__ != "builtins" or type(error) is RuntimeError else ""
{% endif %}
