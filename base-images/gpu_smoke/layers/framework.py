"""Layer framework: it runs in a fresh process - its build, its devices, and right numbers on the GPU."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import re
from collections.abc import Iterator
from types import ModuleType

from .. import explanations, loaded, loader
from ..host import clean
from ..isolate import Facts, Session
from ..policy import FRAMEWORKS
from ..spec import ALL, LayerSpec
from ..verdicts import SKIP, Context, Finding, Layer, finding
from . import kernel_compiler
from .memory import room_left
from .nodes import gpu_here

NAME, TITLE, LEVEL = "framework", "framework", "framework"
ADAPTERS = {name: importlib.import_module(f"{__package__}.framework_{name}") for name in FRAMEWORKS}
# Greatest difference between GPU and CPU by operation: TF32 keeps 10 bits and is on by default for convolutions (torch)
# and for everything (TensorFlow), over sums of about 30 products of numbers near 1; bf16 keeps 7 bits.
TOLERANCE = {"forward": 5e-2, "backward": 5e-2, "convolution": 5e-2, "bf16": 0.15}
# Where a kernel of the program fails while those of gpu-smoke run.
OF_THE_MODEL = {"GS911": "GS917", "GS913": "GS917"}
# As much of a framework's own message as is kept: all of it, but for endless ones.
MESSAGE = 3000


def probe(context: Context, session: Session) -> Facts:
    """Import the framework before anything else of CUDA.

    Facts: ``version``, ``path``, ``cuda`` (None for a CPU build), ``archs``, ``libraries``, ``devices`` (count),
    ``errors`` (greatest difference by operation), ``failed`` (operation) with ``error``, ``said`` (end of its stderr).
    """
    name = context.options.framework
    adapter = ADAPTERS[name]
    facts: Facts = {"imported": False}
    with _stderr_kept() as said:
        try:
            session.note(f"import {name}")
            module = importlib.import_module(name)
            facts.update(imported=True, version=clean(getattr(module, "__version__", "?"), 80))
            facts["path"] = clean(getattr(module, "__file__", ""))
            facts.update(adapter.build(module))
            started = not context.hung("device-nodes", "user-driver", "driver-init", "kernels", "memory", "runtime")
            if context.options.mode == "node" and started:
                session.note(f"{name}: listing devices")
                facts["devices"] = adapter.devices(module) if facts["cuda"] else 0
                if facts["devices"] and gpu_here(context):
                    _compute(session, adapter, module, facts)
        except Exception as error:
            facts.update(failed=facts.get("failed") or "import", error=clean(f"{type(error).__name__}: {error}"))
    facts["libraries"] = [entry._asdict() for entry in loaded.loaded_now()]
    facts["said"] = clean(b"".join(said).decode("utf-8", "backslashreplace"))[-MESSAGE:]
    return facts


def _compute(session: Session, adapter: ModuleType, module: ModuleType, facts: Facts) -> None:
    facts["errors"] = {}
    for name, operation in adapter.operations(module).items():
        session.note(f"{facts['path']}: {name}")
        facts["failed"] = name
        facts["errors"][name] = str(difference(operation(adapter.CPU), operation(adapter.GPU)))
    del facts["failed"]


def difference(left: list[float], right: list[float]) -> float:
    """Return the greatest absolute difference of two lists; infinite when lengths differ or a number is NaN."""
    if len(left) != len(right) or not left:
        return math.inf
    gaps = [abs(a - b) for a, b in zip(left, right, strict=False)]
    return math.inf if any(math.isnan(gap) for gap in gaps) else max(gaps)


@contextlib.contextmanager
def _stderr_kept() -> Iterator[list[bytes]]:
    """Keep what the process writes to file descriptor 2: TensorFlow says there why it has no GPU."""
    said: list[bytes] = []
    kept, room = os.dup(2), os.memfd_create("gpu-smoke")
    os.dup2(room, 2)
    try:
        yield said
    finally:
        os.dup2(kept, 2)
        said.append(os.pread(room, 1 << 20, 0))
        os.close(kept)
        os.close(room)


def covers(archs: list[str], capability: str) -> bool:
    """Say whether compiled code (sm_) or PTX (compute_) of a build runs on a compute capability such as ``9.0``.

    Compiled code runs on the same major with the same or a higher minor; PTX on the same or anything newer; names
    that end in ``a`` run on exactly their own capability (CUDA programming guide, compute capabilities).
    """
    if not re.fullmatch(r"\d+\.\d+", capability):
        return False
    have = tuple(int(part) for part in capability.split("."))
    for arch in archs:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", arch)
        if not match:
            continue
        built = (int(match.group(2)), int(match.group(3)))
        if match.group(4) == "a":
            fits = built == have
        elif match.group(1) == "sm" or match.group(4) == "f":
            fits = built[0] == have[0] and built[1] <= have[1]
        else:
            fits = built <= have
        if fits:
            return True
    return False


def evaluate(context: Context) -> Layer:
    """Decide on the build, the devices it sees, the architectures and the numbers."""
    plain = context.options.framework == "plain"
    # A plain image promises no framework: its model passes without one.
    level = "" if plain and context.options.require == "model" else LEVEL
    layer = Layer(NAME, TITLE if plain else context.options.framework, level)
    facts = context.facts.get(NAME, {})
    layer.path, layer.version = facts.get("path", ""), facts.get("version", "")
    if facts.get("fault"):
        name = context.options.framework
        layer.findings.append(explanations.explain_death(context, facts["fault"], name, "GS811", value=name))
    elif not facts.get("imported"):
        layer.state, layer.summary = SKIP, facts.get("not_run", "not run")
        if facts.get("error"):
            layer.findings.append(explain_text(context, "GS801", facts["error"], value=context.options.framework))
    else:
        layer.findings += _build(context, facts)
        if context.options.mode == "node":
            layer.findings += _on_gpu(context, facts)
            layer.findings.sort(key=lambda found: found.code != "GS804")  # a GPU that is here before a list of others
        layer.summary = _summary(context, facts, layer)
    return layer.settle()


def _summary(context: Context, facts: Facts, layer: Layer) -> str:
    build = f"{layer.version}, CUDA {facts['cuda']}" if facts.get("cuda") else f"{layer.version}, a CPU build"
    if context.options.mode == "image":
        return build
    if facts.get("errors") and "failed" not in facts:
        return f"{build}: {', '.join(facts['errors'])} right"
    layer.state = SKIP
    return f"{build}; not computed: no usable GPU"


def explain_text(context: Context, fallback: str, text: str, **details: object) -> Finding:
    """Make the finding that a framework's message means, ``fallback`` when no known one is in it."""
    evidence = text[:MESSAGE]
    if re.search(r"undefined symbol: \w*nvJitLink", text, re.I):
        path = next((e["path"] for e in context.fact("copies", "libraries") or [] if e["family"] == "nvjitlink"), "?")
        return finding(context, "GS603", evidence, folder=os.path.dirname(path))
    told = loader.explain(context, text.split("ImportError: ")[-1].split("OSError: ")[-1], "")
    if told and fallback == "GS801":
        return told
    left, full = room_left(context)
    known = {
        r"out of memory|OOM when|RESOURCE_EXHAUSTED|_ALLOC_FAILED": "GS706" if full else "GS721",
        r"illegal memory|device-side assert|launch failure|misaligned addr": OF_THE_MODEL.get(fallback, fallback),
        r"re-initialize CUDA in forked": "GS810", r"no kernel image is available": "GS804",
        r"unsupported toolchain": "GS702", r"not compiled with CUDA": "GS802",
    }  # fmt: skip
    code = next((code for pattern, code in known.items() if re.search(pattern, text, re.I)), fallback)
    evidence = f"{evidence}; {left}" if code in ("GS706", "GS721") and left else evidence
    details = {"value": _capabilities(context), **details} if code == "GS804" else {"value": "this CUDA", **details}
    return finding(context, code, evidence, "error", **details)


def _capabilities(context: Context) -> str:
    return ", ".join(sorted({f"{d.get('major')}.{d.get('minor')}" for d in _driver_devices(context)})) or "?"


def _driver_devices(context: Context) -> list[Facts]:
    return context.fact("driver-init", "devices") or []


def _build(context: Context, facts: Facts) -> list[Finding]:
    name, found = context.options.framework, []
    # A child may bring its framework to a plain image.
    expected = context.row.cuda if context.row.text("framework") in (name, "plain") else None
    if not facts.get("cuda"):
        # Outside our images a CPU build beside a GPU may be what its owner wants.
        needed = expected or context.options.require in ("framework", "model")
        if needed or gpu_here(context):
            evidence = f"{name} {facts['version']} from {facts['path']}"
            found.append(finding(context, "GS802", evidence, "error" if needed else "warning", value=name))
        return found
    cuda, wanted = facts["cuda"], context.row.text("framework_version")
    if expected and str(cuda).split(".")[0] != str(expected[0]):
        evidence = f"{name} is built for CUDA {cuda}, image.json says {context.row.text('cuda')}"
        found.append(finding(context, "GS809", evidence, value=str(cuda)))
    if expected and wanted and facts["version"].split("+")[0] != wanted.split("+")[0]:
        found.append(finding(context, "GS608", f"{name} is {facts['version']}, image.json says {wanted}", value=name))
    archs = facts.get("archs") or []
    if expected and archs:
        promised = [f"sm_{c.replace('.', '')}" for c in context.row.capabilities("sass")]
        promised += [f"compute_{c.replace('.', '')}" for c in context.row.capabilities("ptx")]
        lacking = [arch for arch in promised if not {arch, arch + "a", arch + "f"} & set(archs)]
        if lacking:
            evidence = f"lacks {', '.join(lacking)}; has {', '.join(archs)}"
            found.append(finding(context, "GS808", evidence, value=", ".join(lacking)))
    return found + kernel_compiler.findings(context, facts.get("torch_compile") or {})


def _on_gpu(context: Context, facts: Facts) -> list[Finding]:
    devices, found = _driver_devices(context), []
    if facts.get("error"):
        return [explain_text(context, "GS806", f"{facts.get('failed')}: {facts['error']}")]
    if not facts.get("cuda") or not devices:
        return []
    if not facts.get("devices"):
        said = facts.get("said", "")
        code = "GS807" if context.options.framework == "tensorflow" and "dlopen" in said else "GS803"
        return [finding(context, code, f"the driver lists {len(devices)}, the framework 0. {said[:MESSAGE]}".strip())]
    if facts["devices"] < len(devices):
        seen = f"the driver lists {len(devices)}, the framework {facts['devices']}. {facts.get('said', '')[:MESSAGE]}"
        found.append(finding(context, "GS815", seen.strip()))
    archs = facts.get("archs") or []
    for capability in sorted({f"{d.get('major')}.{d.get('minor')}" for d in devices}):
        if archs and not covers(archs, capability):
            evidence = f"the GPU is {capability}, the build has {', '.join(archs)}"
            found.append(finding(context, "GS804", evidence, value=capability))
    for name, error in (facts.get("errors") or {}).items():
        if not float(error) <= TOLERANCE[name]:
            evidence = f"{name}: greatest difference {float(error):g}, allowed {TOLERANCE[name]:g}"
            found.append(finding(context, "GS805", evidence, value=name))
    return found


def idle(context: Context) -> str:
    """Say why no framework is imported: that takes seconds, and without a GPU it proves nothing that is required."""
    options = context.options
    if options.framework not in ADAPTERS:
        return "plain: no framework in this image"
    needless = options.mode == "node" and options.require not in ("framework", "model") and not gpu_here(context)
    return "not imported: no GPU here" if needless else ""


LAYERS = (
    LayerSpec(NAME, 140, evaluate, probe, "framework", needs_driver=False, carries=ALL, workload=True, idle=idle),
)
