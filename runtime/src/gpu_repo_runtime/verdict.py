"""Decide from the reports of a build whether its result may be released; an exit code alone proves nothing.

The scripts of a build leave them in build/proof: `lint`, `test` and `probe` name the commit (and the pushed image)
that they are about, unit.xml and gpu.xml are reports of tests, smoke.json is the report of gpu-smoke.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, NamedTuple

LEVELS = ["none", "driver", "gpu", "framework", "model"]  # of `gpu-smoke --require`: each demands those before it


class Expected(NamedTuple):
    """What a report has to be about. `pushed` is the mark of one push; "" where nothing was pushed. Likewise `name`."""

    digest: str
    commit: str
    require: str
    pushed: str = ""
    framework: str = ""
    name: str = ""


def smoke_problems(record: Any, expected: Expected) -> list[str]:
    """Return what speaks against a release in the record of a smoke test.

    record: {"image": name@digest, "commit": ..., "pushed": ..., "report": what gpu-smoke wrote as JSON}.
    """
    report = record.get("report") if isinstance(record, dict) else None
    if not isinstance(report, dict) or not isinstance(report.get("layers"), list) or not report["layers"]:
        return ["the smoke report is empty or no report of gpu-smoke"]
    return _foreign(record, report, expected) + _not_passed(report, expected.require)


def _foreign(record: dict[str, Any], report: dict[str, Any], expected: Expected) -> list[str]:
    digest = str(record.get("image", "")).rpartition("@")[2]
    image = report.get("image") if isinstance(report.get("image"), dict) else {}
    pairs = {
        "the image": (digest, expected.digest),
        "the commit": (record.get("commit"), expected.commit),
        "the push of": (record.get("pushed"), expected.pushed),
        "the framework": (report.get("framework"), expected.framework),
        "the base image": ((image or {}).get("name"), expected.name),
    }
    return [
        f"the smoke report is about {what} {found or '(none)'}, not {wanted}"
        for what, (found, wanted) in pairs.items()
        if wanted and found != wanted
    ]


def _not_passed(report: dict[str, Any], require: str) -> list[str]:
    problems = []
    asked = report.get("require")
    if asked not in LEVELS or LEVELS.index(asked) < LEVELS.index(require):
        problems.append(f"the smoke test demanded {asked or 'nothing'}, not {require}")
    if report.get("verdict") != "pass":
        problems.append(f"the smoke report says {report.get('verdict') or 'no verdict'}")
    layers = [(layer.get("name"), layer.get("level"), layer.get("state")) for layer in report["layers"]]
    if not any(state == "pass" for *_, state in layers):
        problems.append("every layer of the smoke test was skipped or failed")
    reached = LEVELS[1 : LEVELS.index(require) + 1]
    if report.get("framework") == "plain" and require == "model":
        reached.remove("framework")  # the image promises none
    problems += [f"no layer of {level} was probed" for level in reached if level not in {one for _, one, _ in layers}]
    bad = [
        f"{name} {state}" for name, level, state in layers if state == "fail" or (level in reached and state != "pass")
    ]
    return problems + ([f"layers that {require} demands did not pass: {', '.join(bad)}"] if bad else [])


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


def read_json(file: Path) -> Any:
    """Return what a file holds, None when it is missing or no JSON."""
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None


def _named(file: Path, lines: list[str]) -> list[str]:
    """Say whether a step left its proof, and about what: `lines`."""
    found = file.read_text(encoding="utf-8", errors="replace").split("\n") if file.is_file() else []
    if [line for line in found if line] == lines:
        return []
    return [f"{file}: is about {' '.join(found) or 'nothing'}" if found else f"{file} is missing: scripts/{file.name}"]


def problems(
    folder: Path, commit: str, framework: str, image: str = "", pushed: str = "", require: str = "model"
) -> list[str]:
    """Return each reason against the release of an image (name@digest), or of a package, as one line."""
    if not re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", commit):
        return [f"the commit is {commit or 'not known'}: commit every change, then build and check it again"]
    found = [line for step in ("lint", "test") for line in _named(folder / step, [commit])]
    found += junit_problems(folder / "unit.xml")
    found += _named(folder / "probe", [image, commit, pushed]) if image else junit_problems(folder / "gpu.xml")
    found += ["it is not known when the image was pushed"] if image and not pushed else []
    expected = Expected(image.rpartition("@")[2], commit, require, pushed, framework)
    return found + smoke_problems(read_json(folder / "smoke.json"), expected)
