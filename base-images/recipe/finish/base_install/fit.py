"""Whether the names and versions of a lock fit the image, before anything is downloaded."""

import fnmatch
import re

from .image import Image
from .lock import Pin
from .problem import stop
from .version import same_version

# What only the base brings, under each name that it is published by.
GPU_LIBRARIES = (
    "nvidia-*",
    "cuda-*",
    "triton",
    "triton-nightly",
    "pytorch-triton*",
    "torch",
    "torch-nightly*",
    "libtorch*",
    "tensorflow",
    "tensorflow-cpu*",
    "tensorflow-gpu*",
    "tensorflow-intel",
    "tensorflow-rocm*",
    "intel-tensorflow*",
    "tf-nightly*",
)
# Python bindings of the driver's management library: no CUDA library inside.
HARMLESS = ("nvidia-ml-py",)
# The CUDA version in the name of a package: cupy-cuda12x, jax-cuda12-plugin, faiss-gpu-cu12, mxnet-cu112.
CUDA_IN_NAME = re.compile(r"(?:^|-)(?:cu|cuda)(\d{2})[\dx]?(?:-|$)")
CUDA_IN_VERSION = re.compile(r"\+(?:.*\.)?cu(\d{2})\d*(?:\.|$)")
WAYS_OUT = (
    "Ways out: resolve again under the image's versions (scripts/lock), take another image (copier update -d "
    "framework=... or -d gpu_driver=...), or build an own image and set BASE_IMAGE."
)


def is_gpu_library(name: str) -> bool:
    """Tell whether only the base may bring the package (its normal name)."""
    return name not in HARMLESS and any(fnmatch.fnmatchcase(name, pattern) for pattern in GPU_LIBRARIES)


def conflict(name: str, version: str, image: Image) -> str:
    """Return in one phrase why the image cannot take the package, or ""."""
    held = image.held.get(name)
    if held is not None:
        return "" if same_version(held, version) else f"{name}: the lock asks {version}, the image has {held}"
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in image.takes):
        return ""
    if is_gpu_library(name):
        return f"{name}: the lock asks {version}, the image has none and GPU libraries come from the image"
    wanted = CUDA_IN_NAME.search(name) or CUDA_IN_VERSION.search(version)
    if wanted and int(wanted[1]) != image.cuda_major:
        return f"{name}: {version} is made for CUDA {wanted[1]}, the image has CUDA {image.cuda_major}"
    return ""


def check_fit(pins: dict[str, Pin], image: Image) -> None:
    """Raise Problem when the lock does not fit the image."""
    found = [phrase for name, pin in sorted(pins.items()) if (phrase := conflict(name, pin.version, image))]
    if found:
        stop(f"the lock does not fit the image {image.name}: {'; '.join(found)}. {WAYS_OUT}")
