"""ONNX Runtime on the device that was chosen, with the threads that the container may use.

ONNX Runtime by itself falls back to the CPU when the GPU cannot be used, and starts a thread for each core of the
machine.
"""

import importlib
import os
from pathlib import Path
from typing import Any

from .cores import usable_cores
from .device import DeviceError

PROVIDERS = {"cuda": "CUDAExecutionProvider", "cpu": "CPUExecutionProvider"}


def session(model: str | os.PathLike[str], device: str, options: Any = None) -> Any:
    """Return an ``onnxruntime.InferenceSession`` of the file ``model`` on ``device``, "cuda" or "cpu".

    ``options`` are its SessionOptions. Raises DeviceError when the GPU was asked for and is not used.
    """
    onnxruntime = importlib.import_module("onnxruntime")
    options = options or onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.intra_op_num_threads or _threads()
    wanted = PROVIDERS[device]
    opened = onnxruntime.InferenceSession(os.fspath(model), options, providers=[wanted])
    if wanted not in opened.get_providers():
        raise DeviceError(
            f"{Path(model).name} cannot run on the GPU: ONNX Runtime has no {wanted} (use onnxruntime-gpu in "
            "pyproject.toml) or could not load it: 'gpu-smoke --require gpu' in the image shows what is missing"
        )
    opened.disable_fallback()  # else an error in a call brings the CPU back
    return opened


def _threads() -> int:
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(asked) if asked.isdecimal() and int(asked) else usable_cores()
