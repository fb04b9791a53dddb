"""The C library's memory allocator, set for a process that computes batch after batch.

glibc hands the arrays of a batch back to the system when it ends and takes them anew for the next one. Each of their
pages is then a fault and is cleared once more: an encoder on a processor had over 300 for each request.
"""

import ctypes
import os
import sys

_KEPT = 128 << 20  # bytes that stay with the process when they are free
_LARGEST_POOLED = 32 << 20  # bytes; a larger block goes back to the system at once. glibc takes no higher value.
# <malloc.h>; the values are part of glibc's interface.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_SET_BY_OWNERS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_memory() -> None:
    """Keep up to 128 MiB of freed memory for the next batch, unless the environment sets the allocator.

    To be called before other threads start. musl has no such setting, macOS another allocator: nothing changes there.
    """
    if sys.platform != "linux" or any(name in os.environ for name in _SET_BY_OWNERS):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_POOLED)
