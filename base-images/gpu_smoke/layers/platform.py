"""Layer platform: variables and files of the environment that can do harm before the driver is touched."""

from __future__ import annotations

import os
import re

from ..drivers import in_folder
from ..spec import LayerSpec
from ..verdicts import Context, Layer, finding

NAME, TITLE, LEVEL = "platform", "platform", ""
INJECTORS = ("CUDA_INJECTION64_PATH", "NSIGHT_CUDA_DEBUGGER")
# Left over from looking for a fault: every call waits, or every kernel is compiled at the start.
SLOWING = ("CUDA_LAUNCH_BLOCKING", "CUDA_FORCE_PTX_JIT", "CUDA_FORCE_JIT")
CUDA_LIBRARY = re.compile(
    r"lib(cuda|cudart|cublas|cudnn|cufft|curand|cusolver|cusparse|nccl|nv)\w*(-[\w.]+)?\.so[.\d]*"
)


def evaluate(context: Context) -> Layer:
    """Name the platform, an unusable image.json and harmful variables."""
    layer = Layer(NAME, TITLE, LEVEL)
    row, env = context.row, context.env
    if row.problem:
        layer.findings.append(finding(context, "GS005", row.problem, path=row.path))
    for name in (*INJECTORS, *(name for name in SLOWING if env.get(name) != "0")):
        if env.get(name):
            layer.findings.append(finding(context, "GS006", f"{name}={env[name]}", value=name))
    layer.findings += [
        finding(context, "GS006", f"LD_PRELOAD holds {path}, {why}", value=f"LD_PRELOAD without {path}")
        for path, why in preloaded(env.get("LD_PRELOAD", ""))
    ]
    stubs = [f for f in env.get("LD_LIBRARY_PATH", "").split(":") if in_folder(f.rstrip("/") + "/", "stubs")]
    if stubs:
        value = f"LD_LIBRARY_PATH without {stubs[0]}"
        layer.findings.append(finding(context, "GS006", f"LD_LIBRARY_PATH holds {stubs[0]}", value=value))
    sandbox = " in gVisor" if context.platform.gvisor else ""
    image = f", image {row.text('name')}" if row.text("name") else ""
    layer.summary = f"{context.platform.kind}{sandbox}{image}"
    return layer.settle()


def preloaded(value: str) -> list[tuple[str, str]]:
    """Return what the loader puts before every library and should not, with the reason."""
    found = []
    for path in filter(None, re.split(r"[:\s]", value)):
        name = os.path.basename(path)
        if CUDA_LIBRARY.fullmatch(name):
            found.append((path, "which every program then loads instead of the library that it needs"))
        elif "/" in path and "$" not in path and not os.path.exists(path):
            found.append((path, "which is not there"))
    return found


LAYERS = (LayerSpec(NAME, 10, evaluate, needs_driver=False),)
