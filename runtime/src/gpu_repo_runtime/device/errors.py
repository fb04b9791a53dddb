"""What an error says of the device: a lack of memory, a GPU that is lost, or nothing.

Words count only if the type of the error is a library's: those of other errors may repeat an input.
"""

import re

from ..words import words_of

# The libraries of a GPU, and what their errors say where the type alone does not.
_LIBRARIES = frozenset({"torch", "tensorflow", "jax", "jaxlib", "cupy", "cupy_backends", "cuda", "numba", "xgboost"})
_TOO_LARGE = frozenset({"MemoryError", "OutOfMemoryError", "ResourceExhaustedError"})
_OUT_OF_MEMORY = re.compile(
    r"out of memory|not enough memory|RESOURCE_EXHAUSTED|STATUS_ALLOC_FAILED|MemoryAllocation|OUT_OF_MEMORY",
    re.IGNORECASE,
)
_LOST = re.compile(
    r"CUDA error:|CUDA_ERROR_(ILLEGAL|LAUNCH_FAILED|ECC|MISALIGNED|ASSERT|HARDWARE|UNKNOWN)"
    r"|cudaError(IllegalAddress|LaunchFailure|ECC|MisalignedAddress|Assert|HardwareStack|Unknown)"
)


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether a smaller batch may help."""
    return any(map(_is_too_large, causes(error)))


def is_device_lost(error: BaseException) -> bool:
    """Tell whether the GPU is gone for this process, so that only a new process helps."""
    return any(_is_lost(one) and not _is_too_large(one) for one in causes(error))


def reported(error: BaseException) -> str:
    """Return the words of an error of a library, "" for other errors: theirs may repeat an input."""
    return words_of(error) if type(error).__module__.partition(".")[0] in _LIBRARIES else ""


def causes(error: BaseException | None) -> list[BaseException]:
    """Return the error and what led to it; what "from None" hides has happened all the same."""
    found, one = list[BaseException](), error
    while one and one not in found:
        found.append(one)
        one = one.__cause__ or one.__context__
    return found


def _is_too_large(error: BaseException) -> bool:
    # PyTorch raises a plain RuntimeError if the CPU or cuBLAS has no memory. An owner's own with these words does no
    # harm: its batch is halved.
    words = words_of(error) if type(error) is RuntimeError else reported(error)
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & _TOO_LARGE or _OUT_OF_MEMORY.search(words))


def _is_lost(error: BaseException) -> bool:
    return type(error).__name__ == "AcceleratorError" or bool(_LOST.search(reported(error)))
