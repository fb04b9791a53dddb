"""Layer kernel-module: nvidia.ko and its version, from /proc/driver/nvidia/version."""

from __future__ import annotations

import re

from ..isolate import Facts, Session
from ..spec import ALL, LayerSpec
from ..verdicts import SKIP, Context, Layer, fault_finding, finding
from .nodes import gpu_here

NAME, TITLE, LEVEL = "kernel-module", "kernel module", "driver"
VERSION_FILE = "/proc/driver/nvidia/version"


def probe(context: Context, session: Session) -> Facts:
    """Facts: ``text`` (first line, None when absent), ``version`` and ``flavour`` ("" when unknown), ``nouveau``."""
    text = context.host.read(VERSION_FILE)
    modules = context.host.read("/proc/modules") or ""
    nouveau = context.host.exists("/sys/module/nouveau") or bool(re.search(r"^nouveau ", modules, re.M))
    first = text and text.split("\n")[0][:300]
    return {"text": first, "version": parse_version(text or ""), "flavour": flavour(text or ""), "nouveau": nouveau}


def parse_version(text: str) -> str:
    """Return the driver's version from the NVRM line of the version file, "" when the line has another form."""
    match = re.search(r"NVRM version:.*?\s(\d{2,4}\.\d{1,4}(?:\.\d{1,4})?)(?:\s|$)", text)
    return match.group(1) if match else ""


def flavour(text: str) -> str:
    """Return ``open`` or ``proprietary`` from the NVRM line of the version file, "" when it has another form."""
    line = next((line for line in text.splitlines() if line.startswith("NVRM version:")), "")
    return "open" if "Open Kernel Module" in line else "proprietary" if "Kernel Module" in line else ""


def evaluate(context: Context) -> Layer:
    """Decide on the module; where /proc does not show it (WSL, sandboxes), a driver that starts is proof enough."""
    layer = Layer(NAME, TITLE, LEVEL)
    fault = context.fact(NAME, "fault")
    if fault:
        layer.findings.append(fault_finding(context, fault))
        return layer.settle()
    layer.version = context.fact(NAME, "version") or ""
    started = context.fact("driver-init", "rc") == 0
    if layer.version:
        layer.summary = " ".join(filter(None, [f"nvidia.ko {layer.version}", context.fact(NAME, "flavour")]))
    elif context.fact(NAME, "text"):
        layer.findings.append(finding(context, "GS203", context.fact(NAME, "text")))
        layer.summary = "loaded, version unknown"
    elif context.platform.wsl:
        layer.summary = "the driver lives in Windows"
    elif started or context.platform.jetson:
        layer.summary = "not shown here, but the driver starts"
    elif not gpu_here(context):
        layer.state, layer.summary = SKIP, "no GPU here"
        if context.fact(NAME, "nouveau"):
            layer.findings.append(finding(context, "GS202", "nouveau is loaded, nvidia is not", "warning"))
    else:
        code = "GS202" if context.fact(NAME, "nouveau") else "GS201"
        layer.findings.append(finding(context, code, f"{VERSION_FILE} does not exist"))
    return layer.settle()


LAYERS = (LayerSpec(NAME, 30, evaluate, probe, "host", carries=ALL),)
