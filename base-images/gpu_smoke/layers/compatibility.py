"""Layer compatibility: kernel driver, libcuda, runtime and image row; cuInit and the kernels have the last word."""

from __future__ import annotations

from ..drivers import branch, file_version, number
from ..row import version_pair
from ..spec import ALL, LayerSpec
from ..verdicts import SKIP, Context, Finding, Layer, finding
from .driver_init import cuda_text
from .runtime import unused

NAME, TITLE, LEVEL = "compatibility", "compatibility", "gpu"


def verdict(runtime: int, driver: int, forward: bool) -> str:
    """Return backward, minor, forward or broken for CUDA versions as 1000 * major + 10 * minor (CUDA Compatibility)."""
    if forward:
        return "forward" if runtime <= driver or runtime // 1000 == driver // 1000 else "broken"
    if runtime <= driver:
        return "backward"
    return "minor" if runtime // 1000 == driver // 1000 else "broken"


def evaluate(context: Context) -> Layer:
    """Decide from the versions, and let the proof (cuInit, the runtime's answer, the kernels) overrule the tables."""
    layer = Layer(NAME, TITLE, LEVEL)
    runtime = _runtime(context)
    driver = context.fact("driver-init", "driver_version") or 0
    if context.fact("driver-init", "rc") != 0 or driver <= 0:
        layer.state, layer.summary = SKIP, "not judged: the driver does not start"
        return layer.settle()
    if runtime <= 0:
        layer.state, layer.summary = SKIP, "not judged: there is no CUDA runtime"
        layer.findings += _too_old(context)
        return layer.settle()
    kernel, own = context.fact("kernel-module", "version") or "", file_version(context.fact("user-driver", "path", ""))
    forward = bool(kernel and own and number(own) > number(kernel))
    kind = verdict(runtime, driver, forward)
    refused = 0 if unused(context) else context.fact("runtime", "count_rc")
    if refused in (35, 36):
        layer.state, layer.summary = SKIP, f"not judged: the runtime refuses the driver ({refused})"
        return layer.settle()
    versions = f"runtime {cuda_text(runtime)}, driver {cuda_text(driver)}"
    evidence = f"{versions}, kernel module {kernel or '?'}, libcuda {own or '?'}"
    if code := {"minor": "GS512", "forward": "GS513"}.get(kind):
        layer.findings.append(finding(context, code, evidence, runtime=cuda_text(runtime)))
    if not forward:
        layer.findings += _too_old(context)
    layer.version, layer.summary = kind, f"{kind}{_proof(context, kind)}: {evidence}"
    return layer.settle()


def _runtime(context: Context) -> int:
    """Return the version of the runtime that is used: the framework's own where the loader would find another."""
    pair = version_pair(str(context.fact("framework", "cuda") or "")) if unused(context) else None
    return 1000 * pair[0] + 10 * pair[1] if pair else context.fact("runtime", "runtime_version") or 0


def _proof(context: Context, kind: str) -> str:
    """Say what the verdict rests on besides the versions."""
    if not _ran(context, "universal"):
        return " by the versions, no kernel ran"
    if kind == "broken":
        return " by the versions, yet the kernels ran"
    return ", proven by cuInit and " + ("the kernels" if _proven(context) else "PTX 4.2 alone")


def _ran(context: Context, kernel: str) -> bool:
    devices = context.fact("kernels", "devices") or []
    return bool(devices) and all(device.get(kernel, {}).get("rc") == 0 for device in devices)


def _too_old(context: Context) -> list[Finding]:
    """Compare the kernel module's branch with the oldest that the image runs on."""
    version, oldest = context.fact("kernel-module", "version") or "", context.row.driver_min
    if not oldest or (branch(version) or oldest) >= oldest:
        return []
    return [finding(context, "GS516", f"kernel module {version}", to_driver=f" to branch {oldest} or newer")]


def _proven(context: Context) -> bool:
    """Say whether the runtime took the driver and the image's own PTX ran everywhere."""
    return (
        _ran(context, "universal")
        and _ran(context, "stamped")
        and (unused(context) or context.fact("runtime", "count_rc") == 0)
    )


LAYERS = (LayerSpec(NAME, 80, evaluate, carries=ALL),)
