"""Layer runtime: libcudart - which file, which version, and whether it accepts the driver."""

from __future__ import annotations

import ctypes

from .. import explanations, loaded, loader, requested_gpus
from ..calls import Api, open_library
from ..isolate import Facts, Session
from ..numbers import named
from ..row import to_driver
from ..spec import ALL, LayerSpec
from ..verdicts import SKIP, Context, Finding, Layer, fault_finding, finding
from .driver_init import cuda_text
from .user_driver import BAD_FILES

NAME, TITLE, LEVEL = "runtime", "CUDA runtime", "gpu"
MAJORS = (13, 12, 11)
NEEDED = ("cudaRuntimeGetVersion", "cudaDriverGetVersion", "cudaGetDeviceCount", "cudaMalloc", "cudaMemcpy", "cudaFree")


def sonames(context: Context) -> list[str]:
    """Return the runtime's sonames to try: the image's own major when a row names it, else every major."""
    majors = (context.row.cuda[0],) if context.row.cuda else MAJORS
    return [f"libcudart.so.{'11.0' if major == 11 else major}" for major in majors]


def probe(context: Context, session: Session) -> Facts:
    """Facts: those of ``open_library``, ``runtime_version``, and on a node ``driver_version``, ``count_rc``."""
    names = sonames(context)
    library, facts = open_library(context, session, names[0])
    for name in names[1:]:
        if library is None and not _blocking(facts):
            library, facts = open_library(context, session, name)
    for name in names:
        if library is None and not _blocking(facts):
            library, facts = open_library(context, session, name, wheels=True)
    facts["tried"] = names
    if library is None:
        return facts
    api = Api(library, session, facts["path"] or "libcudart")
    facts["missing"] = api.missing(NEEDED)
    if facts["missing"]:
        return facts
    session.kept[NAME] = library
    facts["runtime_version"] = api.number("cudaRuntimeGetVersion")
    tried = context.fact("driver-init", "fault") or context.fact("user-driver", "fault")
    if context.options.mode == "node" and not tried:
        value = ctypes.c_int(0)
        facts["driver_rc"] = api.code("cudaDriverGetVersion", ctypes.byref(value))
        facts["driver_version"], value.value = value.value, 0
        facts["count_rc"] = api.code("cudaGetDeviceCount", ctypes.byref(value))
        facts["count"] = value.value
    facts["families"] = [entry._asdict() for entry in loaded.loaded_now()]
    return facts


def _blocking(facts: Facts) -> bool:
    """Say whether a damaged file stands where the loader looks, which other majors must not hide."""
    return any(entry["kind"] in BAD_FILES and entry["where"] == "path" for entry in facts.get("candidates", []))


def evaluate(context: Context) -> Layer:
    """Explain the runtime's code; 35 has two causes, told apart by the driver version it read."""
    layer = Layer(NAME, TITLE, LEVEL)
    facts = context.facts.get(NAME, {})
    layer.path = facts.get("path", "")
    if facts.get("fault"):
        layer.findings.append(fault_finding(context, facts["fault"], layer.path or "libcudart"))
    elif facts.get("missing"):
        evidence = f"{layer.path} lacks {', '.join(facts['missing'])}"
        layer.findings.append(finding(context, "GS507", evidence, path=layer.path))
    elif not facts.get("loaded"):
        layer.findings += _missing(context, facts)
        layer.state, layer.summary = SKIP, "libcudart is not here"
    else:
        layer.version = cuda_text(facts.get("runtime_version") or 0)
        layer.summary = f"CUDA {layer.version}"
        layer.findings += _row_fits(context, facts)
        if context.options.mode == "node":
            _over_driver(context, facts, layer)
        if unused(context):
            layer.summary += "; the framework uses its own"
            for found in layer.findings:
                found.severity = "info"
    return layer.settle()


def unused(context: Context) -> bool:
    """Say whether the runtime that the loader finds is one that the framework, which works, does not use."""
    return explanations.framework_has_its_own(context, "cudart", context.fact(NAME, "path") or "")


def _missing(context: Context, facts: Facts) -> list[Finding]:
    bad = [entry for entry in facts.get("candidates", []) if entry["kind"] in BAD_FILES and entry["where"] != "aside"]
    if bad:
        evidence = f"{bad[0]['path']} is {bad[0]['kind']}; the loader says: {facts.get('error')}"
        return [finding(context, "GS507", evidence, path=bad[0]["path"])]
    error, soname = facts.get("error", ""), facts.get("soname", "")
    told = loader.explain(context, error, soname, next((e["path"] for e in facts.get("candidates", [])), ""))
    if told:
        return [told]
    if not context.row.cuda:
        return []
    return [finding(context, "GS506", facts.get("error", ""), value=facts.get("soname"))]


def _row_fits(context: Context, facts: Facts) -> list[Finding]:
    version = facts.get("runtime_version") or 0
    if context.row.cuda and context.row.cuda != (version // 1000, version % 1000 // 10):
        wanted = ".".join(str(part) for part in context.row.cuda)
        evidence = f"cudart is {cuda_text(version)} from {facts.get('path')}, image.json says {wanted}"
        return [finding(context, "GS608", evidence, value="cudart")]
    return []


def _over_driver(context: Context, facts: Facts, layer: Layer) -> None:
    started, rc = context.fact("driver-init", "rc"), facts.get("count_rc")
    if started != 0:
        if not layer.errors:
            layer.state = SKIP
        layer.summary += f" loads; cudaGetDeviceCount gave {named('cuda', rc)}" if rc is not None else " loads"
        return
    if rc == 100 and requested_gpus.hidden_by_choice(context):
        layer.state = SKIP
        return
    if not rc:
        layer.summary += f", {facts.get('count')} devices"
        return
    version, driver = facts.get("runtime_version") or 0, facts.get("driver_version") or 0
    details = {"runtime": cuda_text(version), "value": rc, "to_driver": to_driver(context.row, version)}
    code = {35: "GS502" if driver > 0 else "GS501", 36: "GS503", 46: "GS504"}.get(rc, "")
    evidence = f"cudaGetDeviceCount gave {named('cuda', rc)}; runtime {cuda_text(version)}, driver {cuda_text(driver)}"
    held = explanations.users(context) if rc == 46 else ""
    evidence += f"; NVML: {held}" if held else ""
    own = [finding(context, code, evidence, **details)] if code else []
    layer.findings += own or explanations.explain_gpu_failure(context, rc, evidence, "GS505", **details)


LAYERS = (LayerSpec(NAME, 70, evaluate, probe, "gpu", needs_driver=False, carries=ALL),)
