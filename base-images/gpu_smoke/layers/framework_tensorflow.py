"""What the framework layer asks of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..isolate import Facts

CPU, GPU = "/CPU:0", "/GPU:0"


def build(tensorflow: ModuleType) -> Facts:
    """Return the CUDA version it was built with (None for a CPU build) and its architecture list; needs no GPU."""
    info = tensorflow.sysconfig.get_build_info()
    archs = [str(arch) for arch in info.get("cuda_compute_capabilities") or []]
    cuda = str(info.get("cuda_version") or "unknown") if info.get("is_cuda_build") else None
    return {"cuda": cuda, "archs": archs, "cudnn_built": str(info.get("cudnn_version") or "")}


def devices(tensorflow: ModuleType) -> int:
    """Return the number of GPUs; memory is taken as needed, so that the test leaves room for others."""
    found = tensorflow.config.list_physical_devices("GPU")
    for device in found:
        tensorflow.config.experimental.set_memory_growth(device, True)
    return len(found)


def operations(tensorflow: ModuleType) -> dict[str, Callable[[str], list[float]]]:
    """Return the operations by name: each takes a device and gives numbers that must be the same on every device."""
    tf = tensorflow

    def numbers(tensor: Any) -> list[float]:
        return [float(value) for value in tf.reshape(tf.cast(tensor, tf.float32), [-1]).numpy().tolist()]

    def given(*shape: int) -> Any:
        with tf.device(CPU):
            return tf.random.stateless_normal(shape, seed=[sum(shape), 1])

    def forward(device: str) -> list[float]:
        with tf.device(device):
            return numbers(tf.linalg.matmul(tf.tanh(tf.linalg.matmul(given(8, 32), given(32, 16))), given(16, 4)))

    def backward(device: str) -> list[float]:
        with tf.device(device), tf.GradientTape() as tape:
            weight = tf.identity(given(32, 16))
            tape.watch(weight)
            output = tf.linalg.matmul(tf.tanh(tf.linalg.matmul(given(8, 32), weight)), given(16, 4))
            loss = tf.reduce_mean(tf.square(output))
        return numbers(tape.gradient(loss, weight))

    def convolution(device: str) -> list[float]:
        with tf.device(device):
            return numbers(tf.nn.conv2d(given(2, 16, 16, 3), given(3, 3, 3, 4), strides=1, padding="SAME"))

    def bf16(device: str) -> list[float]:
        with tf.device(device):
            left, right = tf.cast(given(16, 16), tf.bfloat16), tf.cast(given(16, 16), tf.bfloat16)
            return numbers(tf.linalg.matmul(left, right))

    return {"forward": forward, "backward": backward, "convolution": convolution, "bf16": bf16}
