"""Freed memory stays with a process that computes batches, up to a limit and not against the environment."""

import os
import subprocess
import sys

import pytest

from tests.shared import RUNTIME

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the setting is glibc's")

# Blocks as an encoder takes them in a batch: several MB each, all freed at its end. The first ones, larger than what is
# pooled, come from the system each time and so do not count. In a thread, as a service's model has one.
BATCHES = """
import ctypes, resource, threading
from gpu_repo_runtime.allocator import keep_memory
keep_memory()
malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
malloc.restype, malloc.argtypes, free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

def batch():
    blocks = [malloc(size << 20) for size in SIZES]
    for block, size in zip(blocks, SIZES):
        ctypes.memset(block, 1, size << 20)
    for block in blocks:
        free(block)

def work():
    for _ in range(3):
        batch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        batch()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 20)

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def faults(sizes: tuple[int, ...], **environment: str) -> int:
    """Return the page faults of a batch that takes and frees blocks of so many MiB."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    command = [sys.executable, "-c", BATCHES.replace("SIZES", repr(sizes))]
    around = own | environment | {"PYTHONPATH": str(RUNTIME)}
    return int(subprocess.run(command, env=around, capture_output=True, text=True, check=True).stdout)


def test_the_memory_of_a_batch_is_kept_for_the_next_unless_the_owner_says_otherwise() -> None:
    assert faults((6, 12, 9, 20)) < 100
    assert faults((6, 12), MALLOC_TRIM_THRESHOLD_="4096", MALLOC_MMAP_THRESHOLD_="1048576") >= 18 * 256
