"""TensorFlow's own profiler around some work."""

import time
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf


def traced(work: Callable[[], object], device: str, folder: Path) -> tuple[dict[str, float], str]:
    """Do the work; return seconds by kind ("compute", with its copies) and where to look for more.

    The trace goes to the folder, for TensorBoard with its profile plugin, which alone tells copies from kernels.
    """
    tf.profiler.experimental.start(str(folder))
    start = time.perf_counter()
    try:
        work()
    finally:
        seconds = time.perf_counter() - start
        tf.profiler.experimental.stop()
    hint = f"Operators and copies: tensorboard --logdir {folder} (needs tensorboard-plugin-profile)"
    return {"compute": seconds}, hint
