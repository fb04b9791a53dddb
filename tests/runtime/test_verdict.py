"""What a report has to say before anything is released: who it is about, and that what was demanded ran and passed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_repo_runtime import verdict
from gpu_repo_runtime.verdict import Expected, smoke_problems
from image_tools import record as records
from image_tools import smoke
from image_tools.catalog import find_row, read_catalog

DIGEST, OTHER = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
COMMIT, WHEN = "c" * 40, "2026-11-22T10:00:00.000001+00:00"
EXPECTED = Expected(DIGEST, COMMIT, "model", WHEN, "torch", "torch-cu13")


def good(require: str = "model") -> dict[str, Any]:
    """Return the record of a smoke test that passed as far as `require`."""
    reached = verdict.LEVELS[1 : verdict.LEVELS.index(require) + 1]
    names = {"driver-init": "driver", "kernels": "gpu", "cublas": "gpu", "framework": "framework", "model": "model"}
    layers = [
        {"name": name, "level": level, "state": "pass" if level in reached else "skip"} for name, level in names.items()
    ]
    layers.append({"name": "platform", "level": "", "state": "pass"})
    told = {"verdict": "pass", "require": require, "framework": "torch", "image": {"name": "torch-cu13"}}
    return {
        "image": f"host/ml/torch-cu13@{DIGEST}",
        "commit": COMMIT,
        "pushed": WHEN,
        "report": told | {"layers": layers},
    }


def layer(record: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a layer of a record's report."""
    found: dict[str, Any] = next(entry for entry in record["report"]["layers"] if entry["name"] == name)
    return found


@pytest.mark.parametrize("require", verdict.LEVELS)
def test_a_report_that_passed_is_taken(require: str) -> None:
    assert smoke_problems(good(require), EXPECTED._replace(require=require)) == []


def test_a_plain_image_promises_no_framework() -> None:
    """Its model passes without the layer; for `framework` it is demanded all the same."""
    record = good()
    record["report"]["framework"] = "plain"
    layer(record, "framework").update(state="skip", level="")
    wanted = EXPECTED._replace(framework="plain")
    assert smoke_problems(record, wanted) == []
    assert smoke_problems(record, wanted._replace(require="framework")) == ["no layer of framework was probed"]


FALSE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no report": (lambda r: r.update(report="all good"), "empty or no report"),
    "says fail": (lambda r: r["report"].update(verdict="fail"), "says fail"),
    "says nothing": (lambda r: r["report"].pop("verdict"), "says no verdict"),
    "all skipped": (lambda r: [e.update(state="skip") for e in r["report"]["layers"]], "every layer of the smoke test"),
    "model skipped": (lambda r: layer(r, "model").update(state="skip"), "model skip"),
    "no model": (lambda r: r["report"]["layers"].remove(layer(r, "model")), "no layer of model was probed"),
    "a layer without a level fails": (lambda r: layer(r, "platform").update(state="fail"), "platform fail"),
    "a layer beside fails": (lambda r: layer(r, "cublas").update(state="fail"), "cublas fail"),
    "demanded less": (lambda r: r["report"].update(require="driver"), "demanded driver, not model"),
    "another digest": (lambda r: r.update(image=f"host/ml/torch-cu13@{OTHER}"), f"about the image {OTHER}"),
    "another commit": (lambda r: r.update(commit="d" * 40), "about the commit dddd"),
    "older than the push": (lambda r: r.update(pushed="2026-11-22T09:00:00+00:00"), "about the push of 2026-11-22T09"),
    "another framework": (lambda r: r["report"].update(framework="plain"), "about the framework plain"),
    "another image": (lambda r: r["report"].update(image={"name": "plain-cu13"}), "about the base image plain-cu13"),
}


def test_a_report_that_proves_nothing_is_refused() -> None:
    for name, (spoil, words) in FALSE.items():
        record = copy.deepcopy(good())
        spoil(record)
        assert any(words in problem for problem in smoke_problems(record, EXPECTED)), name


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
    (folder / "probe").write_text(f"host/ml/it@{DIGEST}\n{COMMIT}\n{WHEN}\n")
    (folder / "unit.xml").write_text(UNIT)
    (folder / "smoke.json").write_text(json.dumps(good()))
    return folder


def ask(folder: Path, **changes: str) -> str:
    """Return the reasons against a release, as scripts/promote prints them."""
    told = {"commit": COMMIT, "image": f"host/ml/it@{DIGEST}", "pushed": WHEN, "framework": "torch"} | changes
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
    "probe of an older push": ("probe", f"host/ml/it@{DIGEST}\n{COMMIT}\nearlier\n", "earlier"),
    "an error of no test": ("unit.xml", '<t><testcase name="a"/><error/></t>', "1 of 1 tests failed"),
    "no smoke report": ("smoke.json", None, "empty or no report"),
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
