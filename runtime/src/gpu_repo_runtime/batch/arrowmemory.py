"""Where Arrow takes its memory from while parts are done.

Its own allocator hands the memory of a part back to the system, and for the next one each page is a fault again. The C
library keeps it (allocator.py), but of large blocks it would keep too much.
"""

import os
from typing import Self

import pyarrow as pa

from .. import allocator

_CHOSEN_BY_OWNERS = "ARROW_DEFAULT_MEMORY_POOL"


class ArrowMemory:
    """In a with block, takes Arrow's memory from the C library, where that keeps it, behind the first small part.

    From the first large part on, it comes from Arrow's own allocator, as before the first part.
    """

    def __enter__(self) -> Self:
        self._own = pa.default_memory_pool()
        self._may_be_kept = allocator.is_kept() and _CHOSEN_BY_OWNERS not in os.environ
        return self

    def __exit__(self, *error: object) -> None:
        pa.set_memory_pool(self._own)

    def after(self, *, large: bool) -> None:
        """Choose for what comes behind a part."""
        if large and self._may_be_kept:
            self._may_be_kept = False
            pa.set_memory_pool(self._own)
        elif self._may_be_kept:
            pa.set_memory_pool(pa.system_memory_pool())
