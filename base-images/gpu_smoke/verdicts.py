"""Findings, layers, and which of them is the cause."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import findings
from .host import Host, clean
from .isolate import Facts
from .platforms import Platform
from .policy import LEVELS, Options
from .row import Row

PASS, FAIL, SKIP, BLOCKED = "pass", "fail", "skip", "blocked"


@dataclass
class Context:
    """Everything a layer may look at. ``facts`` holds the answers of the probes by layer name."""

    host: Host
    env: dict[str, str]
    platform: Platform
    row: Row
    options: Options
    facts: dict[str, Facts] = field(default_factory=dict)

    def hung(self, *layers: str) -> bool:
        """Say whether a call of one of these layers never came back: what needs the same is not tried."""
        return any(self.facts.get(name, {}).get("fault", {}).get("kind") == "timeout" for name in layers)

    def fact(self, layer: str, key: str, default: Any = None) -> Any:
        """Return one fact of a layer, ``default`` when the layer has no such fact."""
        return self.facts.get(layer, {}).get(key, default)


@dataclass
class Finding:
    """One code of the catalogue with this machine's evidence and the fix for this platform."""

    code: str
    severity: str
    title: str
    fix: str
    evidence: str
    apart: str = ""


@dataclass
class Layer:
    """The verdict on one layer. ``level`` is the policy level from which a skip counts as a failure ("" for never)."""

    name: str
    title: str
    level: str
    state: str = PASS
    summary: str = ""
    path: str = ""
    version: str = ""
    blocked_by: str = ""
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def errors(self) -> list[Finding]:
        """Findings that make the layer fail."""
        return [finding for finding in self.findings if finding.severity == "error"]

    def settle(self) -> Layer:
        """Let an error decide over the state and return the layer."""
        if self.errors:
            self.state = FAIL
        self.summary, self.path, self.version = clean(self.summary), clean(self.path), clean(self.version)
        return self


class _Blanks(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


def finding(context: Context, code: str, evidence: str = "", severity: str = "", **details: Any) -> Finding:
    """Make a finding: its texts come from the catalogue, ``details`` fill the braces of the fix line."""
    entry = findings.lookup(code)
    if entry is None:
        raise KeyError(f"no finding has the code {code}")
    node = context.env.get("SLURMD_NODENAME") or os.uname().nodename
    known = {
        "full": context.row.full_driver,
        "older": context.row.older_image(context.fact("kernel-module", "version") or ""),
        "node": node,
        "uvm_major": context.fact("device-nodes", "uvm_major") or "<number of nvidia-uvm>",
        **{name: _shown(context, value) for name, value in details.items()},
    }
    line = entry.fix_for(context.platform.names).replace("{action}", details.get("action") or entry.action)
    text = line.format_map(_Blanks(known))
    text = text[:1].upper() + text[1:]
    apart = entry.tell_apart_for(context.platform.names).format_map(_Blanks(known))
    shown = clean(_shown(context, evidence), 4000)
    return Finding(code, severity or entry.severity, entry.title, clean(text), shown, clean(apart))


def _shown(context: Context, value: Any) -> Any:
    if not isinstance(value, str) or not context.host.root:
        return value
    return value.replace(context.host.root + "/", "/")


FAULT_CODES = {"signal": "GS001", "timeout": "GS002", "exit": "GS003", "exception": "GS004"}
SIGNALS = {"SIGKILL": "GS008", "SIGILL": "GS009", "SIGBUS": "GS010"}


def fault_finding(context: Context, fault: Facts, path: str = "") -> Finding:
    """Turn the death of a probe into its finding."""
    kind = fault.get("kind", "exit")
    what = {
        "signal": f"killed by {fault.get('signal')}",
        "timeout": f"no answer within {fault.get('seconds')} s",
        "exit": f"ended with status {fault.get('status')}",
        "exception": str(fault.get("error")),
    }.get(kind, kind)
    call = f" in {fault['call']}" if fault.get("call") else ""
    said, _, frames = (fault.get("output") or "").partition("Fatal Python error:")
    last = said.strip().splitlines()[-1:]
    evidence = f"{what}{call}" + (f"; last words: {last[0]}" if last else "")
    if frame := re.search(r'File "([^"]+)", line (\d+)', frames):
        evidence += f"; Python was at {frame.group(1)}:{frame.group(2)}"
    limit = context.fact("device-nodes", "memory_max")
    if fault.get("signal") == "SIGKILL":
        evidence += _killed(context, limit)
    code = SIGNALS.get(fault.get("signal", ""), FAULT_CODES.get(kind, "GS003"))
    limited = f"{limit >> 20} MiB" if limit else "none that this process sees"
    place = path or fault.get("call") or "the library"
    return finding(context, code, evidence, path=place, limit=limited)


def _killed(context: Context, limit: int | None) -> str:
    """Return whose kill it was, as evidence: the memory limit's counter tells."""
    before, now = context.fact("device-nodes", "oom_kills"), oom_kills(context.host)
    told = f"; the memory limit is {limit >> 20} MiB" if limit else "; there is no memory limit"
    if before is None or now is None:
        return told
    return told + ("; it has killed since this began" if now > before else "; it has killed nothing since this began")


def oom_kills(host: Host) -> int | None:
    """Return how many processes the memory limit has killed so far, None when nobody counts (cgroups(7))."""
    text = host.read("/sys/fs/cgroup/memory.events") or host.read("/sys/fs/cgroup/memory/memory.oom_control") or ""
    match = re.search(r"^oom_kill (\d+)", text, re.M)
    return int(match.group(1)) if match else None


def block(layers: list[Layer], stands_on: Callable[[str, str], bool]) -> Layer | None:
    """Return the lowest failing layer, the cause; mark what stands on a failing layer and does not pass as blocked."""
    failing: list[Layer] = []
    for layer in layers:
        failed = layer.state == FAIL
        under = next((below for below in failing if stands_on(layer.name, below.name)), None)
        if under and (failed or (layer.state == SKIP and layer.level)):
            layer.state, layer.blocked_by = BLOCKED, under.name
        if failed:
            failing.append(layer)
    return failing[0] if failing else None


def unmet(layers: list[Layer], require: str) -> list[Layer]:
    """Return the layers at or below the required level that do not pass: a skip is not a pass."""
    reached = LEVELS[1 : LEVELS.index(require) + 1]
    return [layer for layer in layers if layer.level in reached and layer.state != PASS]
