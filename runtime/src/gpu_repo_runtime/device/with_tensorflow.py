"""The device (TensorFlow)."""

import contextlib
import ctypes

import tensorflow as tf

# Take GPU memory as it is needed: TensorFlow's own way is to take all of it at once.
with contextlib.suppress(RuntimeError):  # the model has computed already, where it is imported: it is too late
    for _gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(_gpu, True)


def why_no_gpu() -> str:
    if not tf.test.is_built_with_cuda():
        return "this build of tensorflow has no CUDA"
    if not tf.config.list_physical_devices("GPU"):
        return "tensorflow sees no NVIDIA GPU"
    return ""


def name_and_cuda() -> tuple[str, str]:
    """Return the name of the GPU and the version of CUDA."""
    gpu = tf.config.list_physical_devices("GPU")[0]
    name = tf.config.experimental.get_device_details(gpu).get("device_name", "NVIDIA GPU")
    return name, tf.sysconfig.get_build_info().get("cuda_version", "")


def memory() -> tuple[int, int, int, int]:
    """Return the fields of Memory, in bytes."""
    info = tf.config.experimental.get_memory_info("GPU:0")
    # TensorFlow does not tell the size of the GPU; its context is current on this thread once it has computed.
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    if ctypes.CDLL("libcuda.so.1").cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)):
        return info["current"], 0, 0, info["peak"]
    return info["current"], free.value, total.value, info["peak"]


def reset_peak() -> None:
    tf.config.experimental.reset_memory_stats("GPU:0")
