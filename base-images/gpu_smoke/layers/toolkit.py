"""Layers of the toolkit libraries: each one's file and version; cuBLAS also multiplies two small matrices."""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Callable
from importlib import metadata
from typing import Any, NamedTuple

from .. import explanations, loaded, loader
from ..calls import Api, CallFailed, open_library
from ..isolate import Facts, Session
from ..numbers import named
from ..spec import WORKLOADS, LayerSpec
from ..verdicts import SKIP, Context, Finding, Layer, fault_finding, finding
from . import matrix_product, runtime
from .user_driver import BAD_FILES

LEVEL, NOT_NEEDED = "gpu", "not installed, and this image does not need it"


class Library(NamedTuple):
    """One toolkit library: its sonames by CUDA major, and what must be loaded before it."""

    family: str
    title: str
    sonames: dict[int, str]
    before: tuple[str, ...] = ()


def _both(soname: str) -> dict[int, str]:
    return {12: soname, 13: soname}


_JITLINK = {12: "libnvJitLink.so.12", 13: "libnvJitLink.so.13"}
COMPUTES = "cublas"
LIBRARIES = (
    Library("cublas", "cuBLAS", {12: "libcublas.so.12", 13: "libcublas.so.13"}, ("libcublasLt.so.{major}",)),
    Library("curand", "cuRAND", _both("libcurand.so.10")),
    Library("cusparse", "cuSPARSE", _both("libcusparse.so.12"), ("libnvJitLink.so.{major}",)),
    Library("cusolver", "cuSOLVER", {12: "libcusolver.so.11", 13: "libcusolver.so.12"}, ("libnvJitLink.so.{major}",)),
    Library("cufft", "cuFFT", {12: "libcufft.so.11", 13: "libcufft.so.12"}),
    Library("cudnn", "cuDNN", _both("libcudnn.so.9")),
    Library("nccl", "NCCL", _both("libnccl.so.2")),
)


def cuda_major(context: Context) -> int:
    """Return the CUDA major whose libraries are looked for: the row's, else the runtime's, else 13."""
    if context.row.cuda:
        return context.row.cuda[0]
    return (context.fact("runtime", "runtime_version") or 13000) // 1000


def probe(library: Library) -> Callable[[Context, Session], Facts]:
    """Return the probe of one library; facts: of ``open_library``, ``version``, ``error_size``, ``call``, ``rc``."""

    def step(context: Context, session: Session) -> Facts:
        major = cuda_major(context)
        soname = library.sonames.get(major)
        if not soname:
            return {"soname": f"lib{library.family}.so", "loaded": False, "error": f"not known for CUDA {major}"}
        for name in library.before:
            open_library(context, session, name.format(major=major), wheels=True)
        handle, facts = open_library(context, session, soname, wheels=True)
        if handle is None:
            if "nvJitLink" in facts["error"]:
                facts["jitlink"] = open_library(context, session, _JITLINK.get(major, ""))[1].get("path", "")
            return facts
        api = Api(handle, session, facts["path"] or soname)
        try:
            facts["version"] = _version(api, library.family)
            if library.family == "cudnn":
                facts["cudart"] = api.size("cudnnGetCudartVersion")
            if library.family == COMPUTES and _may_compute(context):
                facts["error_size"] = str(_compute(context, session, api))
        except (CallFailed, AttributeError) as error:
            facts.update(call=getattr(error, "call", str(error)), rc=getattr(error, "rc", -1))
        return facts

    return step


def _may_compute(context: Context) -> bool:
    runtime_works = context.fact("runtime", "count_rc") == 0 and (context.fact("runtime", "count") or 0) > 0
    hung = context.hung("kernels", "memory")
    return runtime_works and context.fact("driver-init", "rc") == 0 and not hung


def _compute(context: Context, session: Session, api: Api) -> float:
    handle = session.kept.get(runtime.NAME) or ctypes.CDLL(context.fact("runtime", "path"))
    device = matrix_product.Device(Api(handle, session, "libcudart"))
    try:
        return matrix_product.largest_error(api, device)
    finally:
        device.free()


def _version(api: Api, family: str) -> str:
    """Return a library's version by its own getter."""
    if family in ("cublas", "cusparse"):
        return ".".join(str(api.number(f"{family}GetProperty", ctypes.c_int(part))) for part in range(3))
    if family == "cudnn":
        number = api.size("cudnnGetVersion")
        return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"
    getters = {"curand": "curandGetVersion", "cusolver": "cusolverGetVersion", "cufft": "cufftGetVersion"}
    number = api.number(getters.get(family, "ncclGetVersion"))
    if family == "nccl":
        return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"
    return f"{number // 1000}.{number % 1000 // 100}.{number % 100}"


def evaluate(context: Context, library: Library) -> Layer:
    """Decide on one library. One that no row promises and that is not installed is neither a fault nor a pass."""
    promised = library.family in context.row.libraries
    facts = context.facts.get(library.family, {})
    here = promised or facts.get("loaded") or facts.get("candidates") or facts.get("fault")
    layer = Layer(library.family, library.title, LEVEL if here else "")
    layer.path, layer.version = facts.get("path", ""), facts.get("version", "")
    if facts.get("fault"):
        place = layer.path or library.title
        layer.findings.append(explanations.explain_death(context, facts["fault"], place, "GS612", value=library.title))
    elif not facts.get("loaded"):
        layer.findings += _not_loaded(context, library, facts, promised)
        layer.state, layer.summary = SKIP, "" if layer.findings else NOT_NEEDED
    else:
        layer.findings += _loaded(context, library, facts)
        layer.summary = _summary(context, library, facts, layer)
        if explanations.framework_has_its_own(context, library.family, layer.path):
            for found in layer.findings:
                found.severity = "info" if found.code == "GS608" else found.severity
        if layer.state == SKIP and runtime.unused(context):
            layer.level, layer.summary = "", f"{layer.version} loads; the framework uses its own"
    return layer.settle()


def _summary(context: Context, library: Library, facts: Facts, layer: Layer) -> str:
    if "error_size" in facts:
        return f"{layer.version}, computes right"
    if library.family == COMPUTES and context.options.mode == "node" and not facts.get("call"):
        layer.state = SKIP
        return f"{layer.version} loads; not computed: no usable GPU"
    return f"{layer.version} loads"


def _not_loaded(context: Context, library: Library, facts: Facts, promised: bool) -> list[Finding]:
    error = facts.get("error", "")
    if "nvJitLink" in error and "undefined symbol" in error:
        evidence = f"{error}; the loader takes nvJitLink from {facts.get('jitlink') or '?'}"
        return [finding(context, "GS603", evidence, folder=os.path.dirname(facts.get("jitlink") or "?"))]
    bad = [e for e in facts.get("candidates", []) if e["kind"] in BAD_FILES and e["where"] != "aside"]
    if bad:
        evidence = f"{bad[0]['path']} is {bad[0]['kind']} {bad[0]['detail']}".strip() + f"; the loader says: {error}"
        return [finding(context, "GS602", evidence, path=bad[0]["path"])]
    told = loader.explain(context, error, facts.get("soname", ""))
    if told:
        return [told]
    if "undefined symbol" in error or re.search(r"version `.*' not found", error):
        return [finding(context, "GS602", error, path=error.split(":")[0])]
    if error and facts.get("soname", "") not in error:
        return [finding(context, "GS602", error, path=error.split(":")[0])]
    return [finding(context, "GS601", error, value=facts.get("soname"))] if promised else []


def _loaded(context: Context, library: Library, facts: Facts) -> list[Finding]:
    found = []
    if facts["by"] == "wheel" and context.row.found:
        folder = context.host.shown(os.path.dirname(facts["path"]))
        found.append(finding(context, "GS609", f"{facts['soname']} loads only from {folder}", folder=folder))
    found += _row_fits(context, library, facts)
    if facts.get("call"):
        found += _failed_call(context, library, facts)
    error = float(facts.get("error_size", "0"))
    if error:
        found.append(finding(context, "GS606", f"greatest error {error:g}, want 0", value=library.title))
    return found


def _failed_call(context: Context, library: Library, facts: Facts) -> list[Finding]:
    """Explain a failed call: of the runtime by CUDA's numbers, of the library by its own status."""
    call, rc = facts["call"], facts["rc"]
    if call.startswith("cuda"):
        return explanations.explain_gpu_failure(
            context, rc, f"{call} gave {named('cuda', rc)}", "GS607", value=library.title
        )
    evidence = f"{call} gave {named(library.family, rc) if library.family == COMPUTES else rc}"
    return [finding(context, "GS607", evidence, value=library.title)]


def _row_fits(context: Context, library: Library, facts: Facts) -> list[Finding]:
    wanted, have = context.row.text(library.family), facts.get("version", "")
    parts = _numbers(wanted)[:3]
    if wanted and have and _numbers(have)[: len(parts)] != parts:
        evidence = f"{library.title} is {have} from {facts.get('path')}, image.json says {wanted}"
        return [finding(context, "GS608", evidence, value=library.title)]
    built, runs = facts.get("cudart") or 0, context.fact("runtime", "runtime_version") or 0
    if built and runs and built // 1000 != runs // 1000:
        evidence = f"cuDNN was built for CUDA {built // 1000}, the runtime is CUDA {runs // 1000}"
        return [finding(context, "GS608", evidence, value=library.title)]
    return []


def _numbers(version: str | None) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version or "")]


COPIES, COPIES_TITLE = "copies", "one copy of each library"


def probe_copies(context: Context, session: Session) -> Facts:
    """Facts: ``libraries``, everything CUDA that the loader brought into this process."""
    return {"libraries": [entry._asdict() for entry in loaded.loaded_now()]}


def judge_copies(context: Context) -> Layer:
    """Look for one family from two folders: by the loader alone, and after the framework's import."""
    layer = Layer(COPIES, COPIES_TITLE, LEVEL)
    worlds = {
        "loaded by name": context.fact(COPIES, "libraries") or [],
        "after import": context.fact("framework", "libraries") or [],
    }
    fault: Any = context.fact(COPIES, "fault")
    if fault:
        layer.findings.append(fault_finding(context, fault))
    for world, entries in worlds.items():
        libraries = [loaded.Mapped(**entry) for entry in entries]
        for family, folders in loaded.duplicates(libraries).items():
            if family == "cuda" and all("/wsl/" in f"{folder}/" for folder in folders):
                continue  # WSL's libcuda.so.1 is a loader that brings the driver's own from another folder
            code, names = "GS605" if family.startswith("cudnn") else "GS604", " and ".join(map(_owned, folders))
            layer.findings.append(finding(context, code, f"{world}: {family} from {names}"))
        for entry in libraries:
            if entry.deleted and entry.family != "cuda":
                layer.findings.append(finding(context, "GS610", f"{world}: {entry.path}", path=entry.path))
    moved = [entry for entry in _elsewhere(*worlds.values()) if not all("/wsl/" in f"{one}/" for one in entry[1:])]
    if moved:
        families, places = ", ".join(entry[0] for entry in moved), sorted({_owned(entry[2]) for entry in moved})
        evidence = f"{families}: after import from {', '.join(places[:3])}; the loader finds others"
        layer.findings.append(finding(context, "GS611", evidence, value=families, folders=" and ".join(places[:3])))
    layer.summary = (
        ", ".join(f"{len(entries)} {world}" for world, entries in worlds.items() if entries) or "none loaded"
    )
    return layer.settle()


def _owned(folder: str) -> str:
    """Name the Python package that installed a folder's libraries, where one did (``pip show -f``)."""
    root, site, inside = folder.partition("/site-packages/")
    for package in metadata.distributions(path=[root + site]) if site else ():
        if f"\n{inside}/" in f"\n{package.read_text('RECORD')}":
            return f"{folder} (package {package.name})"
    return folder


def _elsewhere(bare: list[Facts], later: list[Facts]) -> list[tuple[str, str, str]]:
    """Return the families that no folder of one process and of the other has in common, with both folders."""
    first, second = (loaded.folders([loaded.Mapped(**entry) for entry in entries]) for entries in (bare, later))
    return [
        (family, " and ".join(sorted(first[family])), " and ".join(sorted(second[family])))
        for family in sorted(first.keys() & second.keys())
        if not first[family] & second[family]
    ]


def _spec(number: int, library: Library) -> LayerSpec:
    judged = functools.partial(evaluate, library=library)
    return LayerSpec(library.family, 110 + number, judged, probe(library), "gpu", needs_driver=False, carries=WORKLOADS)


LAYERS = (
    *(_spec(number, library) for number, library in enumerate(LIBRARIES)),
    LayerSpec(COPIES, 130, judge_copies, probe_copies, "gpu", needs_driver=False),
)
