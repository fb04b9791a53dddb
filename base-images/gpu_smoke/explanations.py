"""What other layers and variables say about a failure: asked before a layer blames something."""

from __future__ import annotations

from typing import Any

from . import hardware, machine
from .drivers import mismatch
from .gpus import gpu_name
from .numbers import RECOVERY, meaning, named, node_finding, recovery_text, tables
from .verdicts import Context, Finding, fault_finding, finding

# Codes of NVML that name a broken GPU by themselves, whatever cuInit says.
BROKEN = {15: "GS404", 16: "GS405", 8: "GS413", 11: "GS414", 14: "GS415"}
# Codes of nvmlInit that say more than a vague code of cuInit.
SAID = {4: "GS401", 9: "GS402", 12: "GS403", 17: "GS401", 18: "GS406"}
VAGUE = (3, 100, 304, 999)
PROHIBITED = 2


def broken_gpu(context: Context, seen: str = "", among: set[int] | None = None) -> Finding | None:
    """Return the finding of a GPU that NVML itself calls broken (lost, without power), or wants recovered.

    ``among`` are NVML's numbers of the GPUs to ask about, None for all.
    """
    for answer, where, device in _nvml_answers(context):
        if answer in BROKEN and (among is None or device.get("number") in among):
            asks = recovery_text(device.get("recovery") or 0)
            evidence = "; ".join(filter(None, [seen, f"NVML: {where} gave {named('nvml', answer)}", asks]))
            return finding(context, BROKEN[answer], evidence, "error", value=where, action=recovery(device))
    for device in context.fact("nvml", "devices") or []:
        if device.get("recovery") and (among is None or device["number"] in among):
            told = f"{seen}; {gpu_name(context, device['number'])}: {recovery_text(device['recovery'])}"
            return finding(context, "GS418", told, "error", action=recovery(device))
    return None


def _nvml_answers(context: Context) -> list[tuple[int, str, dict[str, Any]]]:
    found: list[tuple[int, str, dict[str, Any]]] = [
        (context.fact("nvml", "rc") or 0, "nvmlInit_v2", {}),
        (context.fact("nvml", "count_rc") or 0, "the device count", {}),
    ]
    for device in context.fact("nvml", "devices") or []:
        for key in ("rc", "answer"):
            found.append((device.get(key) or 0, gpu_name(context, device["number"]), device))
    return found


def recovery(device: dict[str, Any]) -> str:
    """Return what NVML wants done with a GPU, "" where it wants nothing or does not say."""
    return RECOVERY.get(device.get("recovery") or 0, ("", ""))[1]


def computes(context: Context) -> bool:
    """Say whether the kernels ran on every tested GPU and computed right."""
    tested = context.fact("kernels", "devices") or []
    answers = [one.get("universal", {}) for one in tested]
    return bool(tested) and all(answer.get("rc") == 0 and not answer.get("wrong") for answer in answers)


def limited(context: Context, seen: str) -> Finding | None:
    """Return the finding of an address space that is limited (ulimit -v)."""
    limit = (context.fact("device-nodes", "limits") or {}).get("as")
    if not limit or limit >= machine.ROOM:
        return None
    evidence = f"{seen}; RLIMIT_AS is {limit >> 20} MiB (`ulimit -v` {limit >> 10})"
    return finding(context, "GS317", evidence, value=f"{limit >> 20} MiB")


def mps(context: Context) -> dict[str, Any]:
    """Return the facts about the MPS daemon's pipe."""
    return context.fact("device-nodes", "mps") or {"folder": "/tmp/nvidia-mps", "named": False}


def mps_text(context: Context) -> str:
    """Return what is known of the MPS daemon, as evidence."""
    pipe = mps(context)
    if not pipe.get("there"):
        return f"{pipe['folder']} does not exist"
    return f"{pipe['folder']} is there" + ("" if pipe.get("control") else ", its control pipe is not: no daemon")


def compute_modes(context: Context) -> list[int]:
    """Return the compute mode of each GPU that NVML lists."""
    return [device["mode"] for device in context.fact("nvml", "devices") or [] if "mode" in device]


def excluded(context: Context) -> str:
    """Return the PCI addresses of GPUs that the kernel module was told to leave out."""
    listed = context.fact("device-nodes", "listed") or []
    return ", ".join(one["bus"] for one in listed if one.get("excluded", "").lower() == "yes")


def said_by_nvml(context: Context, rc: int) -> str:
    """Return NVML's own number as evidence beside a vague code of CUDA; "" when it started."""
    told = context.fact("nvml", "rc") or 0
    known = tables()["nvml"][told].means if told in tables()["nvml"] else ""
    return "; ".join(filter(None, [f"nvmlInit_v2 gave {named('nvml', told)}", known])) if told and rc in VAGUE else ""


def users(context: Context) -> str:
    """Return which processes NVML sees on the GPUs, as evidence; "" when it sees none or does not tell."""
    told = []
    for device in context.fact("nvml", "devices") or []:
        for user in device.get("users") or []:
            told.append(f"process {user['pid']} on GPU {device['number']} ({user['memory'] >> 20} MiB)")
    return ", ".join(told[:4])


def explain_init_failure(context: Context, rc: int, seen: str) -> list[Finding]:
    """Return what explains that the driver does not start, the likeliest first; empty when nothing explains it."""
    found = [broken_gpu(context, seen)]
    if rc in (1, 2, 3, 201, 304, 999):
        found.append(limited(context, seen))
    if 805 <= rc <= 810:
        ended = "GS327" if mps(context).get("control") else "GS318"
        code = {808: "GS319", 809: "GS319", 810: ended}.get(rc, "GS318")
        found.append(finding(context, code, f"{seen}; {mps_text(context)}", folder=mps(context)["folder"]))
    elif rc in (2, 46, 100, 999) and mps(context).get("named") and not mps(context).get("control"):
        evidence = f"{seen}; CUDA_MPS_PIPE_DIRECTORY is set, {mps_text(context)}"
        found.append(finding(context, "GS318", evidence, folder=mps(context)["folder"]))
    if rc in (46, 100, 101, 999) and PROHIBITED in compute_modes(context):
        found.append(finding(context, "GS323", f"{seen}; NVML says that the compute mode is prohibited"))
    if rc in (802, 919):
        found.append(_not_ready(context, seen))
    if rc in (100, 101, 304, 999, 801) and context.platform.gvisor:
        found.append(finding(context, "GS118", f"{seen}; the kernel is gVisor's"))
    if rc in (3, 100, 999):
        found.append(_no_mig_nodes(context, seen))
    told = context.fact("nvml", "rc") or 0
    if rc in VAGUE and told in SAID:
        found.append(finding(context, SAID[told], f"{seen}; nvmlInit_v2 gave {named('nvml', told)}"))
    if rc in (0, 3, 100, 101) and (left_out := excluded(context)):
        found.append(
            finding(context, "GS325", f"{seen}; the kernel module lists as excluded: {left_out}", value=left_out)
        )
    # Without NVML nobody says whether the driver has the GPU.
    if rc in (100, 101, 999) and context.fact("nvml", "loaded") and not context.fact("nvml", "count"):
        found.append(hardware.not_started(context, seen))
    said = [one for one in found if one]
    for one in said:
        one.severity = "error"
    return said


# What a number means once the driver has started: contexts, kernels, copies, libraries.
ON_GPU = {2: "GS706", 46: "GS313", 209: "GS701", 214: "GS711", 218: "GS714", 220: "GS712", 221: "GS703", 222: "GS702",
          223: "GS718", 226: "GS713", 702: "GS713", 304: "GS303",
          **dict.fromkeys((700, 714, 715, 716, 717, 718, 719), "GS713")}  # fmt: skip


def explain_gpu_failure(context: Context, rc: int, seen: str, fallback: str, **details: Any) -> list[Finding]:
    """Return what explains a failed call after the driver's start, the likeliest first."""
    told = f"{seen}; NVML: {users(context)}" if rc in (2, 46) and users(context) else seen
    found = explain_init_failure(context, rc, told) or _by_nodes(context, rc, told)
    if not found and rc in (803, 804):
        found = [mismatch(context, rc, told, context.fact("user-driver", "path", ""))]
    if found:
        return found
    if rc in (800, 801) and (imex := hardware.without_imex(context, told)):
        return [imex]
    code = ON_GPU.get(rc, fallback)
    return [finding(context, code, told, "error", **{"value": rc, "meaning": meaning("cuda", rc), **details})]


def _by_nodes(context: Context, rc: int, seen: str) -> list[Finding]:
    """Return what the node of managed memory has to do with a vague failure after a start that went well."""
    nodes, path = context.fact("device-nodes", "nodes") or {}, "/dev/nvidia-uvm"
    if rc not in (304, 999) or "/dev/nvidiactl" not in nodes:
        return []
    if path not in nodes:
        return [finding(context, "GS105", f"{seen}; {path} does not exist", "error")]
    return [_refused(context, seen, path, nodes[path])] if nodes[path] else []


def _refused(context: Context, seen: str, path: str, error: str) -> Finding:
    code = node_finding(error)
    return finding(context, code, f"{seen}; open of {path} gives {error}", "error", path=path, value=error)


def explain_death(context: Context, fault: dict[str, Any], path: str, late: str, **details: Any) -> Finding:
    """Return the finding of a workload's death; being ``late`` while the GPU computes is not the fault of the GPU."""
    if fault.get("kind") == "timeout" and computes(context):
        evidence = f"no answer within {fault.get('seconds')} s in {fault.get('call')}; the GPU itself computes"
        return finding(context, late, evidence, **details)
    return fault_finding(context, fault, path)


def _not_ready(context: Context, seen: str) -> Finding:
    """Tell the reasons of 802 apart: a fabric that comes up, no Fabric Manager."""
    facts = context.facts.get("nvml", {})
    states = {device["fabric"] for device in facts.get("devices") or [] if "fabric" in device}
    if 2 in states:
        return hardware.fabric_in_progress(context, f"{seen}; NVML: the fabric's probe is in progress")
    failed = [d for d in facts.get("devices") or [] if d.get("fabric") == 3 and d.get("fabric_rc")]
    if failed:
        told = f"{gpu_name(context, failed[0]['number'])} ended with {named('nvml', failed[0]['fabric_rc'])}"
        return finding(context, "GS321", f"{seen}; NVML: the fabric's probe of {told}")
    told = "; NVML: the fabric's probe has not started" if 1 in states else ""
    return finding(context, "GS308", seen + told)


def mig_on(context: Context) -> bool:
    """Say whether NVML lists a GPU in MIG mode."""
    return any(device.get("mig") for device in context.fact("nvml", "devices") or [])


def mig_instances(context: Context) -> list[str]:
    """Return the MIG instances that NVML shows to this process."""
    return [uuid for device in context.fact("nvml", "devices") or [] for uuid in device.get("instances") or []]


def _no_mig_nodes(context: Context, seen: str) -> Finding | None:
    wanted = context.fact("device-nodes", "mig_caps") or []
    have = context.fact("device-nodes", "caps") or []
    if not mig_on(context) or not (wanted or mig_instances(context)):
        return None
    if here := {*wanted} & {*have}:
        refused = context.fact("device-nodes", "refused_caps") or {}
        # Some are refused to a job that has other instances.
        return _refused(context, seen, *next(iter(refused.items()))) if len(refused) == len(here) else None
    if not wanted and len(have) > 2:
        return None
    told = ", ".join(wanted[:4]) or "the instances' nodes"
    return finding(context, "GS120", f"{seen}; MIG is on, /dev/nvidia-caps lacks {told}", value=told)


def framework_has_its_own(context: Context, family: str, path: str) -> bool:
    """Say whether the framework computes right on the GPU with another copy of a library than the one at ``path``."""
    facts = context.facts.get("framework", {})
    if not facts.get("errors") or "failed" in facts or not path:
        return False
    own = [entry["path"] for entry in facts.get("libraries") or [] if entry["family"] == family]
    return bool(own) and path not in own


def shares_memory(context: Context, number: int) -> bool:
    """Say whether a GPU's memory is the machine's own too (Jetson, GH200)."""
    devices = context.fact("driver-init", "devices") or []
    return any(d.get("number") == number and 1 in (d.get("integrated"), d.get("host_tables")) for d in devices)
