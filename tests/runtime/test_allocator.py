"""Freed memory stays with a process that computes batches, up to a limit and not against the environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_repo_runtime import allocator

SOURCE = str(Path(allocator.__file__).parents[1])
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
    code = BATCHES.replace("SIZES", repr(sizes))
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=own | environment | {"PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def test_the_memory_of_a_batch_is_kept_for_the_next() -> None:
    assert faults((6, 12, 9, 20)) < 100


def test_the_environment_of_the_owner_counts_more() -> None:
    assert faults((6, 12), MALLOC_TRIM_THRESHOLD_="4096", MALLOC_MMAP_THRESHOLD_="1048576") >= 18 * 256
