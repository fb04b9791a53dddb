"""The report as one dictionary; its form is ``report.schema.json``."""

from __future__ import annotations

import math
import os
import re
import tempfile
from dataclasses import asdict
from typing import Any

from ..gpus import known
from ..host import clean
from ..platforms import GPU_VARIABLES
from ..spec import stands_on
from ..verdicts import FAIL, Context, Finding, Layer, block, finding, unmet
from ..version import VERSION

SCHEMA = 1


def build(context: Context, layers: list[Layer], started: str, seconds: float) -> dict[str, Any]:
    """Decide the verdict and return the report; every string is clean and every number finite."""
    missing = [layer.name for layer in unmet(layers, context.options.require)]
    failed = block(layers, stands_on)
    lowest = next((layer for layer in layers if layer is failed or layer.name in missing), None)
    options = context.options
    report = {
        "schema": SCHEMA,
        "program": {"name": "gpu-smoke", "version": VERSION},
        "started": started,
        "seconds": round(seconds, 3),
        "mode": options.mode,
        "require": options.require,
        "framework": options.framework,
        "model": options.model,
        "verdict": "fail" if lowest else ("pass" if _tested(context, layers) else "untested"),
        "exit_code": 1 if lowest else 0,
        "cause": _cause(context, lowest) if lowest else None,
        "unmet": missing,
        "platform": context.platform._asdict(),
        "environment": {name: context.env[name] for name in GPU_VARIABLES if name in context.env},
        "image": context.row.data if context.row.found else None,
        "driver_floor": _floor(context),
        "gpus": known(context),
        "layers": [asdict(layer) for layer in layers],
        "facts": context.facts,
    }
    made: dict[str, Any] = jsonable(report)
    return made


def _tested(context: Context, layers: list[Layer]) -> bool:
    """Say whether something ran on a GPU, or in image mode whether a library of the image was loaded."""
    if context.options.mode == "image":
        return any(layer.state == "pass" and layer.path for layer in layers)
    return any(layer.name == "kernels" and layer.state == "pass" for layer in layers)


def _cause(context: Context, layer: Layer) -> dict[str, Any]:
    told: Finding | None = next(iter(layer.errors or layer.findings), None)
    if told is None:
        told = finding(context, "GS007", f"{layer.title}: {layer.summary}", value=layer.summary)
    return {"layer": layer.name, **asdict(told)}


def _floor(context: Context) -> dict[str, Any] | None:
    """Return the oldest driver branch that the runtime found here can run on (CUDA Compatibility)."""
    version = context.fact("runtime", "runtime_version") or 0
    branch = context.row.oldest_driver(version)
    return {"cuda": f"{version // 1000}.{version % 1000 // 10}", "branch": branch} if branch else None


def jsonable(value: Any, depth: int = 12) -> Any:
    """Return ``value`` with clean strings, finite numbers and text keys; what is deeper than ``depth`` becomes text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth > 0 and isinstance(value, dict):
        return {clean(key, 200): jsonable(entry, depth - 1) for key, entry in value.items()}
    if depth > 0 and isinstance(value, (list, tuple)):
        return [jsonable(entry, depth - 1) for entry in value]
    return clean(value)


def xml_safe(text: str) -> str:
    """Return text without the characters that XML 1.0 forbids."""
    return re.sub("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


def write_whole(path: str, text: str) -> None:
    """Write a file so that readers see all of it or none; a device or pipe is written to as it is. Raises OSError."""
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "w", encoding="utf-8") as device:
            device.write(text)
        return
    target = os.path.realpath(path)
    handle, name = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".gpu-smoke.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def counts(report: dict[str, Any]) -> dict[str, int]:
    """Return the number of layers by state."""
    states = [layer["state"] for layer in report["layers"]]
    return {state: states.count(state) for state in ("pass", FAIL, "blocked", "skip")}
