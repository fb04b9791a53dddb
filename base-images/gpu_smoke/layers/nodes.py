"""Layer device-nodes: /dev/nvidia* (WSL: /dev/dxg, Jetson: /dev/nvgpu), there and allowed."""

from __future__ import annotations

import errno
import os
import re
import time

from .. import explanations, hardware, machine, requested_gpus
from ..isolate import Facts, Session
from ..numbers import node_finding
from ..spec import ALL, LayerSpec
from ..verdicts import SKIP, Context, Finding, Layer, fault_finding, finding

NAME, TITLE, LEVEL = "device-nodes", "device nodes", "driver"
CONTROL, MEMORY = "/dev/nvidiactl", "/dev/nvidia-uvm"
OTHER_STACKS = ("/dev/dxg", "/dev/nvgpu")


def probe(context: Context, session: Session) -> Facts:
    """Open every node; facts: ``nodes`` maps a node to None (works) or the errno's name, and those of ``machine``."""
    host = context.host
    gpus = [f"/dev/{name}" for name in host.names("/dev") if re.fullmatch(r"nvidia\d+", name)]
    nodes, wrong, opened = {}, {}, {}
    for path in [CONTROL, MEMORY, *OTHER_STACKS, *gpus[:64]]:
        if host.exists(path):
            session.note(f"open {path}")
            began = time.monotonic()
            answer = host.opened(path)
            opened[path] = round(time.monotonic() - began, 3)
            nodes[path] = answer if isinstance(answer, str) else None
            if path in gpus:
                session.kept[path] = answer
            elif isinstance(answer, int):
                os.close(answer)
            if path not in OTHER_STACKS:
                kinds = ("nvidia-uvm",) if path == MEMORY else ("nvidia-frontend", "nvidia")
                wrong[path] = machine.not_a_device(context, path) or machine.wrong_major(context, path, kinds)
    shown = {path: told for path, told in wrong.items() if told}
    more = {"docker": _docker(context), "shm": host.folder_size("/dev/shm"), **machine.facts(context)}
    return {"nodes": nodes, "wrong": shown, "opened_s": opened, **more}


def _docker(context: Context) -> Facts:
    found = {}
    for name in ("docker", "nvidia-container-runtime", "nvidia-ctk"):
        folders = [*context.env.get("PATH", "").split(":"), "/usr/bin", "/usr/local/bin", "/snap/bin"]
        found[name] = next((f for f in folders if f and os.path.exists(os.path.join(context.host.path(f), name))), "")
    return found


def gpu_nodes(context: Context) -> Facts:
    """Return the nodes that mean a GPU was given to this machine or container."""
    nodes = context.fact(NAME, "nodes", {})
    found = {path: error for path, error in nodes.items() if path != MEMORY}
    given_none = requested_gpus.asked_for_none(context) or requested_gpus.slurm_without_gpus(context)
    if given_none and not any(_is_gpu(path) for path in found):
        # The container runtime leaves the control node where it was told to give no GPU.
        return {}
    return found


def _is_gpu(path: str) -> bool:
    return path in OTHER_STACKS or re.search(r"nvidia\d+$", path) is not None


def gpu_here(context: Context) -> bool:
    """Say whether there is a GPU: a node for one, or a driver that starts all the same (sandboxes, odd hosts)."""
    return context.fact("driver-init", "rc") == 0 or (bool(gpu_nodes(context)) and not _all_withheld(context))


def _all_withheld(context: Context) -> bool:
    """Say whether a Slurm job without GPUs sees nodes that its device rules keep from it."""
    gpus = [error for path, error in gpu_nodes(context).items() if _is_gpu(path)]
    return bool(gpus) and requested_gpus.slurm_without_gpus(context) and all(error == "EPERM" for error in gpus)


def evaluate(context: Context) -> Layer:
    """Decide on the nodes; cuInit's answer decides whether a missing nvidia-uvm matters."""
    layer = Layer(NAME, TITLE, LEVEL)
    fault = context.fact(NAME, "fault")
    if fault:
        layer.findings.append(fault_finding(context, fault))
        return layer.settle()
    nodes = context.fact(NAME, "nodes", {})
    started = context.fact("driver-init", "rc")
    if not gpu_nodes(context) or _all_withheld(context):
        return _without_nodes(context, layer)
    layer.findings += _refused(context, nodes)
    if CONTROL in nodes and not any(_is_gpu(path) for path in nodes) and not context.fact("driver-init", "count"):
        layer.findings.append(_no_gpu_node(context))
    if CONTROL not in nodes and started != 0 and not set(OTHER_STACKS) & {*nodes}:
        seen = f"{', '.join(nodes)} without {CONTROL}"
        layer.findings.append(finding(context, "GS124", seen, "error" if started else "warning"))
    if CONTROL in nodes and MEMORY not in nodes and started != 0:
        severity = "error" if started in (304, 999) and not explanations.broken_gpu(context) else "warning"
        layer.findings.append(finding(context, "GS105", f"{MEMORY} does not exist", severity))
    layer.findings += _host_side(context)
    layer.summary = ", ".join(path.rsplit("/", 1)[1] for path in nodes)
    return layer.settle()


def _no_gpu_node(context: Context) -> Finding:
    seen = f"{CONTROL} is there, /dev/nvidia0 and the others are not"
    found = requested_gpus.explain_missing_gpu(context, seen) or finding(context, "GS116", seen)
    found.severity = "error"
    return found


def _without_nodes(context: Context, layer: Layer) -> Layer:
    if context.fact("driver-init", "rc") == 0:
        layer.summary = "none visible, but the driver starts"
        return layer.settle()
    loaded = bool(context.fact("kernel-module", "version"))
    refused = _all_withheld(context)
    seen = "/proc/driver/nvidia/version is there" if loaded else "no NVIDIA kernel module"
    seen += ", the device rules refuse every GPU node" if refused else ", no /dev/nvidia0"
    why = requested_gpus.explain_missing_gpu(context, seen)
    if not why and loaded and not context.platform.in_container:
        layer.findings.append(finding(context, "GS106", "the kernel module is loaded, /dev/nvidiactl is absent"))
        return layer.settle()
    layer.state = SKIP
    layer.summary = "the host has a GPU, this process was given none" if loaded else "no GPU here"
    layer.findings.append(why or _nothing_here(context, loaded))
    return layer.settle()


def _nothing_here(context: Context, loaded: bool) -> Finding:
    if loaded:
        return finding(context, "GS102", "/proc/driver/nvidia/version is there, /dev/nvidiactl is not")
    cards = context.fact(NAME, "pci") or []
    if context.fact("kernel-module", "nouveau"):
        return finding(context, "GS202", "nouveau is loaded, nvidia is not", "warning")
    if cards and not context.platform.wsl:
        told = ", ".join(f"{card['address']} ({card['driver'] or 'no driver'})" for card in cards[:4])
        return finding(context, "GS119", f"NVIDIA devices on the PCI bus: {told}; no NVIDIA kernel module", "warning",
                       value=told)  # fmt: skip
    return finding(context, "GS101", "no /dev/nvidia*, no NVIDIA kernel module")


def _refused(context: Context, nodes: Facts) -> list[Finding]:
    gpus = {path: error for path, error in nodes.items() if re.search(r"\d$", path)}
    usable = nodes.get(CONTROL) is None and (not gpus or any(error is None for error in gpus.values()))
    started = context.fact("driver-init", "rc") == 0
    found = []
    # Jetson's /dev/nvgpu is a folder.
    bad = {path: error for path, error in nodes.items() if error and (path, error) != ("/dev/nvgpu", "EISDIR")}
    for error in dict.fromkeys(bad.values()):
        paths = [path for path in bad if bad[path] == error]
        evidence = f"open gives {error} ({_in_words(error)}): {', '.join(paths)}"
        severity = "warning" if usable and started else "error"
        managed = context.platform.slurm or context.platform.in_kubernetes
        if severity == "warning" and error in ("EPERM", "EACCES") and managed:
            severity = "info"  # the nodes of other jobs' and pods' GPUs
        code = node_finding(error)
        details = {"path": paths[0], "value": error, "meaning": _in_words(error)}
        told = finding(context, code, evidence, severity, **details)
        found.append(_broken(context, error, evidence) or told)
    for path, told in (context.fact(NAME, "wrong") or {}).items():
        if path not in bad:
            code = "GS123" if "major" in told else "GS111"
            severity = "warning" if started else "error"
            evidence = told if told.startswith(path) else f"{path} is {told}"
            found.append(finding(context, code, evidence, severity, path=path))
    return found


def _broken(context: Context, error: str, evidence: str) -> Finding | None:
    """Return what NVML or the machine says of a GPU whose node gives such an error; None for a matter of rights."""
    if error in ("EPERM", "EACCES", "EMFILE", "ENFILE"):
        return None
    broken = explanations.broken_gpu(context, evidence)
    return broken or (hardware.not_started(context, evidence) if error == "EIO" else None)


def _in_words(error: str) -> str:
    return os.strerror(getattr(errno, error, 0)).lower() if hasattr(errno, error) else "no name"


def _host_side(context: Context) -> list[Finding]:
    docker = context.fact(NAME, "docker", {})
    tools = docker.get("nvidia-container-runtime") or docker.get("nvidia-ctk")
    if context.platform.kind != "bare" or not docker.get("docker") or tools:
        return []
    return [finding(context, "GS108", f"docker in {docker['docker']}, no nvidia-container-runtime, no nvidia-ctk")]


LAYERS = (LayerSpec(NAME, 20, evaluate, probe, "host", carries=ALL),)
