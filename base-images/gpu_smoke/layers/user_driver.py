"""Layer user-driver: libcuda.so.1 - which file is loaded, or what stands in its place."""

from __future__ import annotations

import os

from .. import elf, loader
from ..calls import Api, open_library
from ..drivers import file_version, in_folder
from ..isolate import Facts, Session
from ..spec import ALL, LayerSpec
from ..verdicts import SKIP, Context, Finding, Layer, fault_finding, finding
from .nodes import gpu_here

NAME, TITLE, LEVEL = "user-driver", "user-mode driver", "driver"
SONAME = "libcuda.so.1"
NEEDED = (
    "cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2", "cuCtxSetCurrent",
    "cuMemGetInfo_v2", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2",
    "cuModuleLoadData", "cuModuleUnload", "cuModuleGetFunction", "cuLaunchKernel", "cuCtxSynchronize",
)  # fmt: skip
BAD_FILES = {
    "empty": "GS216", "directory": "GS217", "wrong-arch": "GS215", "truncated": "GS218", "not-elf": "GS218",
    "dangling": "GS222", "unreadable": "GS223",
}  # fmt: skip


def probe(context: Context, session: Session) -> Facts:
    """Load libcuda by its bare name; facts are those of ``open_library`` plus ``missing`` functions."""
    library, facts = open_library(context, session, SONAME)
    if library is not None:
        facts["missing"] = Api(library, session, facts["path"] or SONAME).missing(NEEDED)
        if not facts["missing"]:
            session.kept[NAME] = library
    return facts


def evaluate(context: Context) -> Layer:
    """Decide which file libcuda is; a machine without a GPU needs none."""
    layer = Layer(NAME, TITLE, LEVEL)
    facts = context.facts.get(NAME, {})
    here = gpu_here(context)
    layer.path, layer.version = facts.get("path", ""), file_version(facts.get("path", ""))
    if facts.get("fault"):
        layer.findings.append(fault_finding(context, facts["fault"], _first_file(facts)))
    elif facts.get("loaded"):
        layer.findings += _loaded(context, facts)
        layer.summary = f"libcuda {layer.version}".strip()
    else:
        layer.findings += _not_loaded(context, facts)
    if not here:
        for found in layer.findings:
            found.severity = "warning" if found.code not in ("GS211", "GS212", "GS213", "GS214") else "info"
        layer.state = SKIP
        layer.summary = layer.summary or "no GPU here, no libcuda"
    return layer.settle()


def _first_file(facts: Facts) -> str:
    return next((entry["path"] for entry in facts.get("candidates", [])), SONAME)


def _loaded(context: Context, facts: Facts) -> list[Finding]:
    path, found = facts["path"], []
    started = context.fact("driver-init", "rc")
    if in_folder(path, "stubs") or started == 34:
        return [finding(context, "GS219", f"loaded from {path}", path=path)]
    if facts.get("missing"):
        evidence = f"{path} lacks {', '.join(facts['missing'][:4])}"
        found.append(finding(context, "GS221", evidence, path=path))
    if facts.get("deleted"):
        severity = "error" if facts.get("gone") else "warning"
        found.append(finding(context, "GS220", f"{path} is deleted", severity, path=path))
    if context.platform.wsl and "/wsl/" not in path and started != 0:
        severity = "error" if started in (100, 500, 999) else "warning"
        found.append(finding(context, "GS224", f"loaded from {path}", severity))
    return found


def _not_loaded(context: Context, facts: Facts) -> list[Finding]:
    files, error = facts.get("candidates", []), facts.get("error", "")
    for entry in files:
        if entry["where"] in ("path", "system") and entry["kind"] in BAD_FILES:
            return [_bad_file(context, entry, error)]
    good = [entry for entry in files if entry["kind"] == "ok" and entry["where"] != "aside"]
    first = next((entry["path"] for entry in good if entry["where"] in ("path", "system")), "")
    told = loader.explain(context, error, SONAME, first)
    if told:
        return [told]
    for entry in good:
        folder = os.path.dirname(context.host.shown(entry["path"]))
        code = {"driver": "GS212", "system": "GS213"}.get(entry["where"])
        if code:
            return [finding(context, code, f"{error}; it is {entry['path']}", folder=folder, path=entry["path"])]
        return [finding(context, "GS218", error, path=entry["path"])]
    for entry in files:
        if entry["kind"] in BAD_FILES and entry["where"] != "aside":
            return [_bad_file(context, entry, error)]
    given = context.env.get("NVIDIA_DRIVER_CAPABILITIES", "")
    asked = bool({"all", "compute"} & {*given.replace(" ", "").split(",")})
    if context.fact("nvml", "loaded") and asked:
        evidence = f"{error}; NVIDIA_DRIVER_CAPABILITIES={given}; NVML is {context.fact('nvml', 'path')}"
        return [finding(context, "GS230", evidence)]
    in_container = context.platform.in_container
    if given and not asked and in_container:
        return [finding(context, "GS214", f"{error}; NVIDIA_DRIVER_CAPABILITIES={given}")]
    if context.fact("nvml", "loaded") and in_container:
        return [finding(context, "GS214", f"{error}; NVML is {context.fact('nvml', 'path')}")]
    return [finding(context, "GS211", error)]


def _bad_file(context: Context, entry: Facts, error: str) -> Finding:
    evidence = f"{entry['path']} is {entry['kind']} {entry['detail']}".strip() + f"; the loader says: {error}"
    have, want = entry["detail"], elf.own_architecture()
    return finding(context, BAD_FILES[entry["kind"]], evidence, path=entry["path"], kind=have, machine=want)


LAYERS = (LayerSpec(NAME, 40, evaluate, probe, "gpu", carries=ALL),)
