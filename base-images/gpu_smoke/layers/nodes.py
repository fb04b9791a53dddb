"""Layer device-nodes: /dev/nvidia* (WSL: /dev/dxg, Jetson: /dev/nvgpu), there and allowed."""

from __future__ import annotations

import os
import re

from ..isolate import Facts, Session
from ..spec import ALL, LayerSpec
from ..verdicts import SKIP, Context, Finding, Layer, fault_finding, finding
from .requirement import unsatisfied

NAME, TITLE, LEVEL = "device-nodes", "device nodes", "driver"
CONTROL, MEMORY = "/dev/nvidiactl", "/dev/nvidia-uvm"
OTHER_STACKS = ("/dev/dxg", "/dev/nvgpu")


def probe(context: Context, session: Session) -> Facts:
    """Open every node; facts: ``nodes`` maps a node to None (works) or the errno's name."""
    host = context.host
    gpus = [f"/dev/{name}" for name in host.names("/dev") if re.fullmatch(r"nvidia\d+", name)]
    nodes = {}
    for path in [CONTROL, MEMORY, *OTHER_STACKS, *gpus[:64]]:
        if host.exists(path):
            session.note(f"open {path}")
            nodes[path] = host.open_error(path)
    return {"nodes": nodes, "docker": _docker(context), "shm": host.folder_size("/dev/shm")}


def _docker(context: Context) -> Facts:
    found = {}
    for name in ("docker", "nvidia-container-runtime", "nvidia-ctk"):
        folders = [*context.env.get("PATH", "").split(":"), "/usr/bin", "/usr/local/bin", "/snap/bin"]
        found[name] = next((f for f in folders if f and os.path.exists(os.path.join(context.host.path(f), name))), "")
    return found


def gpu_nodes(context: Context) -> Facts:
    """Return the nodes that mean a GPU was given to this machine or container."""
    nodes = context.fact(NAME, "nodes", {})
    return {path: error for path, error in nodes.items() if path != MEMORY}


def gpu_here(context: Context) -> bool:
    """Say whether there is a GPU: a node for one, or a driver that starts all the same (sandboxes, odd hosts)."""
    return bool(gpu_nodes(context)) or context.fact("driver-init", "rc") == 0


def judge(context: Context) -> Layer:
    """Decide on the nodes; cuInit's answer decides whether a missing nvidia-uvm matters."""
    layer = Layer(NAME, TITLE, LEVEL)
    fault = context.fact(NAME, "fault")
    if fault:
        layer.findings.append(fault_finding(context, fault))
        return layer.settle()
    nodes = context.fact(NAME, "nodes", {})
    if not gpu_nodes(context):
        return _without_nodes(context, layer)
    layer.findings += _refused(context, nodes)
    started = context.fact("driver-init", "rc")
    if CONTROL in nodes and MEMORY not in nodes and started != 0:
        severity = "error" if started == 999 else "warning"
        layer.findings.append(finding(context, "GS105", f"{MEMORY} does not exist", severity))
    layer.findings += _host_side(context)
    layer.summary = ", ".join(path.rsplit("/", 1)[1] for path in nodes)
    return layer.settle()


def _without_nodes(context: Context, layer: Layer) -> Layer:
    if context.fact("driver-init", "rc") == 0:
        layer.summary = "none visible, but the driver starts"
        return layer.settle()
    loaded = bool(context.fact("kernel-module", "version"))
    if loaded and not context.platform.in_container:
        layer.findings.append(finding(context, "GS106", "the kernel module is loaded, /dev/nvidiactl is absent"))
        return layer.settle()
    layer.state = SKIP
    if loaded:
        layer.findings.append(finding(context, "GS102", "/proc/driver/nvidia/version is there, /dev/nvidiactl is not"))
        layer.summary = "the host has a GPU, this container was given none"
    else:
        layer.findings.append(finding(context, "GS101", "no /dev/nvidia*, no NVIDIA kernel module"))
        layer.summary = "no GPU here"
    return layer.settle()


def _refused(context: Context, nodes: Facts) -> list[Finding]:
    gpus = {path: error for path, error in nodes.items() if re.search(r"\d$", path)}
    found = []
    for code, errors in (("GS103", ("EPERM",)), ("GS104", ("EACCES",))):
        bad = [path for path, error in nodes.items() if error in errors]
        if bad:
            usable = nodes.get(CONTROL) is None and (not gpus or any(error is None for error in gpus.values()))
            severity = "warning" if usable and context.fact("driver-init", "rc") == 0 else "error"
            evidence = f"open gives {errors[0]}: {', '.join(bad)}"
            found.append(finding(context, code, evidence, severity, path=bad[0]))
    return found


def _host_side(context: Context) -> list[Finding]:
    found = []
    version = context.fact("kernel-module", "version")
    wanted = context.env.get("NVIDIA_REQUIRE_CUDA", "")
    cuda = context.fact("driver-init", "driver_version") or 0
    if wanted and context.env.get("NVIDIA_DISABLE_REQUIRE", "").lower() not in ("1", "true"):
        reason = unsatisfied(wanted, version or "", cuda)
        if reason:
            found.append(finding(context, "GS107", reason))
    docker = context.fact(NAME, "docker", {})
    tools = docker.get("nvidia-container-runtime") or docker.get("nvidia-ctk")
    if context.platform.kind == "bare" and docker.get("docker") and not tools:
        found.append(
            finding(context, "GS108", f"docker in {docker['docker']}, no nvidia-container-runtime, no nvidia-ctk")
        )
    return found


LAYERS = (LayerSpec(NAME, 20, judge, probe, "host", carries=ALL),)
