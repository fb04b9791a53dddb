"""Decide from the reports of a build whether its result may be released; an exit code alone proves nothing.

The scripts of a build leave them in build/proof: `lint`, `test` and `probe` name the commit (and the pushed image)
that they are about, unit.xml and gpu.xml are reports of tests, smoke.json is the report of gpu-smoke.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

LEVELS = ["none", "driver", "gpu", "framework", "model"]  # of `gpu-smoke --require`: each demands those before it


def smoke_problems(record: Any, commit: str, require: str, image: str = "", pushed: str = "") -> list[str]:
    """Return what speaks against a release in the record of a smoke test. gpu-smoke itself judges the layers.

    Args:
        record: {"image": name@digest, "commit": ..., "pushed": ..., "report": what gpu-smoke wrote as JSON}.
        commit: what it must be about, likewise `image` (name@digest) and `pushed`, the time of its push; "" for any.
        require: one of LEVELS.
    """
    report = record.get("report") if isinstance(record, dict) else None
    if not isinstance(report, dict) or not report.get("layers"):
        return ["the smoke report is missing, or it is not one of gpu-smoke"]
    digests = [str(one).rpartition("@")[2] for one in (record.get("image"), image)]
    pairs = {"commit": (record.get("commit"), commit), "image": digests, "push": (record.get("pushed"), pushed)}
    problems = [
        f"the smoke report is about the {what} {found or '(none)'}, not {wanted}"
        for what, (found, wanted) in pairs.items()
        if wanted and found != wanted
    ]
    if report.get("require") not in LEVELS[LEVELS.index(require) :]:
        problems.append(f"the smoke test demanded {report.get('require') or 'nothing'}, not {require}")
    if report.get("verdict") != "pass":
        problems.append(f"the smoke report says {report.get('verdict') or 'no verdict'}")
    return problems


def junit_problems(file: Path) -> list[str]:
    """Return what speaks against a release in pytest's JUnit report: nothing ran, or something failed."""
    try:
        report = ElementTree.parse(file)
    except (OSError, ElementTree.ParseError):
        return [f"there is no test report in {file}"]
    cases = list(report.iter("testcase"))
    if failed := len([*report.iter("failure"), *report.iter("error")]):
        return [f"{file}: {failed} of {len(cases)} tests failed"]
    skipped = sum(case.find("skipped") is not None for case in cases)
    return [] if len(cases) > skipped else [f"{file}: no test ran, {skipped} were skipped"]


def problems(folder: Path, commit: str, require: str = "model", image: str = "", pushed: str = "") -> list[str]:
    """Return each reason against the release of an image (name@digest), or of a package, as one line."""
    if not re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", commit):
        return [f"the commit is {commit or 'not known'}: commit every change, then build and check it again"]
    found = [line for step in ("lint", "test") for line in _proof_problems(folder / step, commit)]
    found += junit_problems(folder / "unit.xml")
    found += _proof_problems(folder / "probe", image, commit, pushed) if image else junit_problems(folder / "gpu.xml")
    try:
        record = json.loads((folder / "smoke.json").read_bytes())
    except (OSError, ValueError):
        record = None
    return found + smoke_problems(record, commit, require, image, pushed)


def _proof_problems(file: Path, *lines: str) -> list[str]:
    """Return whether a step left its proof, and about what: `lines`."""
    if not file.is_file():
        return [f"{file} is missing: scripts/{file.name}"]
    found = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return [] if found == list(lines) else [f"{file}: is about {' '.join(found)}, not {' '.join(lines)}"]
