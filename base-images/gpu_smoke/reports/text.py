"""The report for people: a picture of the stack, the cause and the fix, at 80 columns."""

from __future__ import annotations

import textwrap
from typing import Any

from ..gpus import described
from ..layers.toolkit import NOT_NEEDED
from .build import counts

WIDTH = 80
NAME_WIDTH = 26
COLOURS = {"pass": "32", "fail": "31;1", "blocked": "33", "skip": "90", "cause": "31;1", "fix": "32", "dim": "90"}
GLYPHS = {"pass": "✓", "fail": "✗", "blocked": "·", "skip": "-", "up": "│", "top": "┌", "end": "└"}
ASCII = {"pass": "+", "fail": "X", "blocked": ".", "skip": "-", "up": "|", "top": "+", "end": "+"}


class Paint:
    """Colours and glyphs that the terminal can show."""

    def __init__(self, colour: bool, encoding: str | None) -> None:
        self.colour, self.encoding = colour, encoding or "ascii"
        try:
            "".join(GLYPHS.values()).encode(self.encoding)
            self.glyphs = GLYPHS
        except (UnicodeEncodeError, LookupError):
            self.glyphs = ASCII

    def __call__(self, kind: str, text: str) -> str:
        return f"\x1b[{COLOURS[kind]}m{text}\x1b[0m" if self.colour and kind in COLOURS else text

    def safe(self, text: str) -> str:
        """Return text that the terminal's encoding can carry."""
        try:
            return text.encode(self.encoding, "replace").decode(self.encoding)
        except LookupError:
            return text.encode("ascii", "replace").decode("ascii")


def render(report: dict[str, Any], paint: Paint) -> str:
    """Return the verdict, its cause and fix; then what else was found; then the stack, its top first."""
    lines = [*(paint(_colour(report), line) for line in _lines(headline(report), WIDTH)), ""]
    if report["cause"]:
        lines += _told("cause", report["cause"], paint)
    lines += _others(report, paint)
    lines += _gpus(report["gpus"], paint)
    shown = [layer for layer in report["layers"] if layer["summary"] != NOT_NEEDED]
    for number, layer in enumerate(reversed(shown)):
        edge = "top" if number == 0 else ("end" if number == len(shown) - 1 else "up")
        lines += _row(layer, paint, edge)
    folded = [layer["title"] for layer in report["layers"] if layer["summary"] == NOT_NEEDED]
    if folded:
        lines += _wrapped("  not here", f"{', '.join(folded)}: {NOT_NEEDED}", paint, "dim")
    lines.append(_last(report, paint))
    return paint.safe("\n".join(lines) + "\n")


def _colour(report: dict[str, Any]) -> str:
    return "skip" if report["verdict"] == "untested" else str(report["verdict"])


def headline(report: dict[str, Any]) -> str:
    """Return the verdict in one line."""
    need = f", required {report['require']}" if report["require"] != "none" else ""
    if report["verdict"] == "fail":
        return f"FAIL{need}: {report['cause']['title']} ({report['cause']['code']})"
    if report["verdict"] == "untested":
        return "NO GPU TESTED: no fault was found, but nothing ran on a GPU."
    if report["mode"] == "image":
        return "PASS: the image's libraries load; image mode tests no GPU."
    return f"PASS{need}: {_tested(report)}"


def _tested(report: dict[str, Any]) -> str:
    layers = {layer["name"]: layer for layer in report["layers"]}
    proved = [layers[name]["title"] for name in ("framework", "model") if layers[name]["state"] == "pass"]
    gpus = layers["driver-init"]["summary"][:60] or "a GPU"
    return f"{gpus}; the kernels{''.join(f', {title}' for title in proved)} computed right."


def _row(layer: dict[str, Any], paint: Paint, edge: str) -> list[str]:
    state = layer["state"]
    mark = paint(state, f"{paint.glyphs[state]} {state:<8}")
    summary = f"blocked by {layer['blocked_by']}" if layer["blocked_by"] else layer["summary"]
    if state == "fail":
        codes = [found["code"] for found in layer["findings"] if found["severity"] == "error"]
        summary = " ".join([*codes, summary])
    room = WIDTH - NAME_WIDTH - 15
    wrapped = _lines(summary, room) or [""]
    up = paint.glyphs["end" if edge == "end" else "up"] if edge != "top" else paint.glyphs["up"]
    rows = [f"{paint.glyphs[edge]} {layer['title'][:NAME_WIDTH]:<{NAME_WIDTH}} {mark} {wrapped[0]}"]
    follow = " " if edge == "end" else up
    rows += [f"{follow} {'':<{NAME_WIDTH}} {'':<10} {more}" for more in wrapped[1:]]
    if layer["path"]:
        rows += [f"{follow}   {paint('dim', part)}" for part in _lines(f"from {layer['path']}", WIDTH - 5)]
    return rows


def _lines(text: str, width: int) -> list[str]:
    """Wrap a text; a path is not broken at its hyphens, so that what fits into a line can be copied."""
    return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


def _told(kind: str, found: dict[str, Any], paint: Paint) -> list[str]:
    label = {"cause": "CAUSE", "error": "ALSO", "warning": "WARNING", "info": "NOTE"}[kind]
    layer = f" (layer {found['layer']})" if "layer" in found else ""
    lines = _wrapped(f"{label} {found['code']}", f"{found['title']}{layer}", paint, kind)
    if found["evidence"]:
        lines += _wrapped("  evidence", found["evidence"], paint, "dim")
    lines += _wrapped("  fix", found["fix"], paint, "fix")
    if found.get("apart"):
        lines += _wrapped("  check", found["apart"], paint, "dim")
    return [*lines, ""]


def _wrapped(label: str, text: str, paint: Paint, kind: str) -> list[str]:
    first, *more = _lines(text, WIDTH - 15) or [""]
    return [f"{paint(kind, f'{label:<14}')} {first}", *(f"{'':<15}{line}" for line in more)]


def _others(report: dict[str, Any], paint: Paint) -> list[str]:
    """Return the other findings, but not those that the cause explains: of blocked layers, and the same seen again."""
    lines = []
    cause = report["cause"] or {}
    for layer in report["layers"]:
        for found in layer["findings"] if not layer["blocked_by"] else []:
            elsewhere = layer["name"] != cause.get("layer")
            same = found["code"] == cause.get("code") and (elsewhere or found["evidence"] == cause["evidence"])
            if not same and (found["severity"] != "info" or layer["state"] == "pass"):
                lines += _told(found["severity"], {**found, "layer": layer["name"]}, paint)
    return lines


def _gpus(gpus: list[dict[str, Any]], paint: Paint) -> list[str]:
    """Return a line for each GPU: its number at CUDA, what names it on the host, what stands out."""
    lines = []
    for gpu in gpus:
        label = f"NVML GPU {gpu['nvml']}" if gpu["cuda"] is None else f"GPU {gpu['cuda']}"
        lines += _wrapped(label, "; ".join(filter(None, [gpu["name"], described(gpu), *gpu["notes"]])), paint, "dim")
    return [*lines, ""] if lines else []


def _last(report: dict[str, Any], paint: Paint) -> str:
    numbers = ", ".join(f"{count} {state}" for state, count in counts(report).items() if count)
    verdict = "NO GPU TESTED:" if report["verdict"] == "untested" else report["verdict"].upper()
    need = f"; required {report['require']}" if report["require"] != "none" else ""
    said = f"{verdict} {numbers}{need}; {report['seconds']:.1f} s; exit code {report['exit_code']}"
    if report["cause"]:
        said += f"\nMore: gpu-smoke --explain {report['cause']['code']}"
    elif report["verdict"] == "untested":
        said += "\nNothing ran on a GPU; --require gpu makes that a failure."
    return paint(_colour(report), said)
