"""What an error says of the device: a lack of memory, a GPU that is lost, or nothing.

The words of what the project's own code raises may repeat an input. They are not believed, and not passed on.
"""

import dis
import re
from pathlib import Path

from ..words import words_of

# What PyTorch, TensorFlow, JAX, CuPy and the CUDA libraries say where the type of the error alone does not.
_OUT_OF_MEMORY = re.compile(
    r"out of memory|not enough memory|RESOURCE_EXHAUSTED|STATUS_ALLOC_FAILED|MemoryAllocation|OUT_OF_MEMORY",
    re.IGNORECASE,
)
_LOST = re.compile(
    r"CUDA error:|CUDA_ERROR_(ILLEGAL|LAUNCH_FAILED|ECC|MISALIGNED|ASSERT|HARDWARE|UNKNOWN)"
    r"|cudaError(IllegalAddress|LaunchFailure|ECC|MisalignedAddress|Assert|HardwareStack|Unknown)"
)
_TOO_LARGE = frozenset({"MemoryError", "OutOfMemoryError", "ResourceExhaustedError"})
_LIBRARIES = frozenset({"torch", "tensorflow", "jax", "jaxlib", "cupy", "cupy_backends"})
_PACKAGES = frozenset({"site-packages", "dist-packages"})  # the folders of what pip installs, on Debian too


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether a smaller batch may help."""
    return any(_is_too_large(one) and (_is_of_library(one) or not raised_by_project(one)) for one in causes(error))


def is_device_lost(error: BaseException) -> bool:
    """Tell whether the GPU is gone for this process, so that only a new process helps."""
    return any(_is_lost(one) and not raised_by_project(one) for one in causes(error))


def reported(error: BaseException) -> str:
    """Return the words of an error that are a library's or the driver's own, "" where they may repeat an input."""
    return "" if raised_by_project(error) else said(error)


def said(error: BaseException) -> str:
    """Return what a library or the driver said, "" for an exception of Python itself: that may repeat an input."""
    return words_of(error) if type(error).__module__ != "builtins" or type(error) is RuntimeError else ""


def causes(error: BaseException) -> list[BaseException]:
    """Return the error and what led to it; what "from None" hides has happened all the same."""
    found: list[BaseException] = []
    next_: BaseException | None = error
    while next_ is not None and all(next_ is not one for one in found):
        found.append(next_)
        next_ = next_.__cause__ or next_.__context__
    return found


def raised_by_project(error: BaseException) -> bool:
    """Tell whether a ``raise`` of the project raised it, and no call of a library.

    What a pool of processes passes on counts as the project's: its traceback is a text.
    """
    if type(error.__cause__).__name__.endswith("RemoteTraceback"):
        return True
    place = error.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    if place is None:
        return False
    code = place.tb_frame.f_code
    return code.co_code[place.tb_lasti] == dis.opmap["RAISE_VARARGS"] and _PACKAGES.isdisjoint(
        Path(code.co_filename).parts
    )


def _is_too_large(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & _TOO_LARGE or _OUT_OF_MEMORY.search(said(error)))


def _is_lost(error: BaseException) -> bool:
    """torch.AcceleratorError came with torch 2.8; older builds raise a RuntimeError."""
    lost = type(error).__name__ == "AcceleratorError" or bool(_LOST.search(said(error)))
    return lost and not _is_too_large(error)


def _is_of_library(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or type(error).__module__.partition(".")[0] in _LIBRARIES
