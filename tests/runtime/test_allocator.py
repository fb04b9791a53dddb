"""Freed memory stays with a process that computes batches: by what the Dockerfile sets for glibc."""

import os
import re
import subprocess
import sys

import pytest

from tests.shared import ROOT

# Blocks as an encoder takes them in a batch: several MB each, all freed at its end. The first ones, larger than what is
# pooled, come from the system each time and so do not count. In a thread, as a service's model has one.
BATCHES = """
import ctypes, resource, threading
malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
malloc.restype, malloc.argtypes, free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

def batch():
    blocks = [malloc(size << 20) for size in (6, 12, 9, 20)]
    for block, size in zip(blocks, (6, 12, 9, 20)):
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


@pytest.mark.skipif(sys.platform != "linux", reason="the setting is glibc's")
def test_the_memory_of_a_batch_is_kept_for_the_next() -> None:
    dockerfile = (ROOT / "templates/shared/Dockerfile").read_text()
    own = os.environ | dict(re.findall(r"(MALLOC_\w+)=(\d+)", dockerfile))
    done = subprocess.run([sys.executable, "-c", BATCHES], env=own, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100, "page faults of a batch"
