"""Layer platform: variables and files of the environment that can do harm before the driver is touched."""

from __future__ import annotations

from ..spec import LayerSpec
from ..verdicts import Context, Layer, finding
from .user_driver import in_folder

NAME, TITLE, LEVEL = "platform", "platform", ""
INJECTORS = ("CUDA_INJECTION64_PATH", "NSIGHT_CUDA_DEBUGGER")


def evaluate(context: Context) -> Layer:
    """Name the platform, an unusable image.json and harmful variables."""
    layer = Layer(NAME, TITLE, LEVEL)
    row, env = context.row, context.env
    if row.problem:
        layer.findings.append(finding(context, "GS005", row.problem, path=row.path))
    for name in INJECTORS:
        if env.get(name):
            layer.findings.append(finding(context, "GS006", f"{name}={env[name]}", value=name))
    stubs = [f for f in env.get("LD_LIBRARY_PATH", "").split(":") if in_folder(f.rstrip("/") + "/", "stubs")]
    if stubs:
        value = f"LD_LIBRARY_PATH without {stubs[0]}"
        layer.findings.append(finding(context, "GS006", f"LD_LIBRARY_PATH holds {stubs[0]}", value=value))
    sandbox = " in gVisor" if context.platform.gvisor else ""
    image = f", image {row.text('name')}" if row.text("name") else ""
    layer.summary = f"{context.platform.kind}{sandbox}{image}"
    return layer.settle()


LAYERS = (LayerSpec(NAME, 10, evaluate, needs_driver=False),)
