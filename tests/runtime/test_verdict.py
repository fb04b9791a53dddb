"""What a report has to say before anything is released: who it is about, and that what was demanded ran and passed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_repo_runtime import verdict
from image_tools import record as records
from image_tools import smoke
from image_tools.catalog import find_row, read_catalog

DIGEST, OTHER = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
COMMIT, WHEN = "c" * 40, "2026-11-22T10:00:00.000001+00:00"
IMAGE = f"host/ml/it@{DIGEST}"


def good(require: str = "model", **report: Any) -> dict[str, Any]:
    """Return the record of a smoke test that passed as far as `require`."""
    told = {"verdict": "pass", "require": require, "layers": [{"name": "kernels", "state": "pass"}]}
    return {"image": IMAGE, "commit": COMMIT, "pushed": WHEN, "report": told | report}


@pytest.mark.parametrize("require", verdict.LEVELS)
def test_a_report_that_passed_is_taken(require: str) -> None:
    for less in verdict.LEVELS[: verdict.LEVELS.index(require) + 1]:
        assert verdict.smoke_problems(good(require), COMMIT, less, IMAGE, WHEN) == []


FALSE: dict[str, tuple[Any, str]] = {
    "no record": (None, "missing, or it is not one of gpu-smoke"),
    "no report": (good() | {"report": "all good"}, "missing, or it is not one of gpu-smoke"),
    "no layers": (good(layers=[]), "missing, or it is not one of gpu-smoke"),
    "says fail": (good(verdict="fail"), "says fail"),
    "nothing ran on a GPU": (good(verdict="untested"), "says untested"),
    "says nothing": (good(verdict=None), "says no verdict"),
    "demanded less": (good("framework"), "demanded framework, not model"),
    "demanded nothing": (good(require=None), "demanded nothing, not model"),
    "another digest": (good() | {"image": f"host/ml/it@{OTHER}"}, f"about the image {OTHER}"),
    "another commit": (good() | {"commit": "d" * 40}, "about the commit dddd"),
    "older than the push": (good() | {"pushed": "2026-11-22T09:00:00+00:00"}, "about the push 2026-11-22T09"),
}


def test_a_report_that_proves_nothing_is_refused() -> None:
    for name, (record, words) in FALSE.items():
        assert words in "\n".join(verdict.smoke_problems(record, COMMIT, "model", IMAGE, WHEN)), name


def test_the_record_of_a_release_tells_what_was_proved() -> None:
    told = records.Pushed(f"host/ml-staging/torch-cu13@{DIGEST}", COMMIT, WHEN)
    kept = smoke.check_record(good("framework"), find_row(read_catalog(), "torch-cu13"), told, "framework")
    assert (kept["require"], kept["verdict"], kept["on_a_gpu"]) == ("framework", "pass", True)
    assert kept["layers"]["kernels"] == "pass"


UNIT = '<testsuite tests="2" skipped="1"><testcase name="a"/><testcase name="b"><skipped/></testcase></testsuite>'


def proof(folder: Path) -> Path:
    """Write what the scripts of a child leave behind when all is well."""
    folder.mkdir()
    (folder / "lint").write_text(f"{COMMIT}\n")
    (folder / "test").write_text(f"{COMMIT}\n")
    (folder / "probe").write_text(f"{IMAGE}\n{COMMIT}\n{WHEN}\n")
    (folder / "unit.xml").write_text(UNIT)
    (folder / "smoke.json").write_text(json.dumps(good()))
    return folder


def ask(folder: Path, **changes: str) -> str:
    """Return the reasons against a release, as scripts/promote prints them."""
    told = {"commit": COMMIT, "image": IMAGE, "pushed": WHEN} | changes
    return "\n".join(verdict.problems(folder, **told))


SPOILED: dict[str, tuple[str, str | None, str]] = {
    "lint did not run": ("lint", None, "scripts/lint"),
    "lint of another commit": ("lint", f"{'d' * 40}\n", "is about dddd"),
    "test did not run": ("test", None, "scripts/test"),
    "no report of tests": ("unit.xml", None, "no test report"),
    "a report that was cut off": ("unit.xml", "<testsuite>", "no test report"),
    "all tests skipped": ("unit.xml", '<t><testcase name="a"><skipped/></testcase></t>', "no test ran, 1 were skipped"),
    "a test failed": ("unit.xml", '<t><testcase name="a"><failure/></testcase></t>', "1 of 1 tests failed"),
    "probe did not run": ("probe", None, "scripts/probe"),
    "probe of an older push": ("probe", f"{IMAGE}\n{COMMIT}\nearlier\n", "earlier"),
    "an error of no test": ("unit.xml", '<t><testcase name="a"/><error/></t>', "1 of 1 tests failed"),
    "no smoke report": ("smoke.json", None, "not one of gpu-smoke"),
}


def test_a_child_releases_what_is_proved(tmp_path: Path) -> None:
    assert ask(proof(tmp_path / "proof")) == ""


def test_a_child_releases_nothing_else(tmp_path: Path) -> None:
    for number, (case, (file, text, words)) in enumerate(SPOILED.items()):
        folder = proof(tmp_path / str(number))
        (folder / file).unlink()
        if text is not None:
            (folder / file).write_text(text)
        assert words in ask(folder), case
    for commit in ("", "unknown", f"{COMMIT}-dirty"):
        assert "commit every change" in ask(proof(tmp_path / f"of {commit}"), commit=commit)
