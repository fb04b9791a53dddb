"""The reports: valid against the schema, readable, and one test case per layer; and the catalogue is complete."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import jsonschema
import pytest
from gpu_smoke import numbers
from gpu_smoke.explain import explain, markdown
from gpu_smoke.findings import catalogue
from gpu_smoke.reports.text import WIDTH

from docs.figures.site_lists import on_page_markdown
from tests.gpu_smoke.smoke_cases import CASES, CUDA_CODES, NVML_CODES
from tests.gpu_smoke.smoke_machine import PACKAGE_ROOT, Machine
from tests.gpu_smoke.test_smoke_loader import MESSAGES

SCHEMA = json.loads((PACKAGE_ROOT / "gpu_smoke" / "report.schema.json").read_text())
DOCS = PACKAGE_ROOT.parent / "docs" / "gpu-smoke.md"
# What guards against our own mistakes has no failure to inject; the loader's messages are tested by themselves, and so
# is what stops torch.compile (test_smoke_torch_compile.py).
NOT_INJECTED = {"GS004", "GS812", "GS813", *(code for _, _, code in MESSAGES)}


def test_every_code_has_an_injected_failure() -> None:
    covered = {case.code for case in CASES} | {code for _, code, _ in [*CUDA_CODES, *NVML_CODES]}
    missing = set(catalogue()) - covered - NOT_INJECTED
    assert not missing, f"no test injects {sorted(missing)}"


def test_every_common_failure_has_a_case() -> None:
    numbers = {case.number for case in CASES} - {""}
    unseen = {"5", "24"}  # before the container starts; in a process of the user's own that forked
    missing = {str(n) for n in range(1, 26)} - numbers - unseen
    assert not missing, f"no case for the common failures {sorted(missing, key=int)}"


# CUDA's and NVML's codes that containers meet; each has a cause of its own.
COMMON_CUDA = {3, 34, 35, 36, 46, 100, 209, 221, 222, 304, 802, 803, 804, 999}
COMMON_NVML = {4, 9, 12, 15, 16, 18, 999}
ELSEWHERE = {
    35: "old-driver-runtime-13", 36: "runtime-newer-call", 209: "no-kernel-for-gpu", 221: "jit-library-missing",
    222: "ptx-refused-everywhere",
}  # fmt: skip


def test_every_common_code_of_the_driver_is_injected() -> None:
    known = {case.name for case in CASES}
    injected = {code for code, _, _ in CUDA_CODES} | {code for code, name in ELSEWHERE.items() if name in known}
    assert injected >= COMMON_CUDA, f"no test injects CUDA {sorted(COMMON_CUDA - injected)}"
    have = {code for code, _, _ in NVML_CODES}
    assert have >= COMMON_NVML, f"no test injects NVML {sorted(COMMON_NVML - have)}"


def test_codes_are_complete() -> None:
    for entry in catalogue().values():
        for field in ("title", "symptom", "cause", "detected_by", "source"):
            assert getattr(entry, field).strip(), f"{entry.id} has no {field}"
        fixes = list(entry.fix.values())
        assert fixes, f"{entry.id} has no fix"
        assert all(text.strip() and "\n" not in text for text in fixes), f"{entry.id}: a fix is one line"
        shown = "".join([entry.symptom, entry.cause, entry.detected_by, *fixes])
        assert shown.isascii(), f"{entry.id}: ASCII for every terminal"
        assert "anywhere" in entry.fix, f"{entry.id} has no fix for other platforms"


def test_site_lists_every_code_and_every_injected_failure() -> None:
    made = on_page_markdown(DOCS.read_text())
    assert markdown().strip() in made, "the site lacks the texts of the codes"
    rows = set(re.findall(r"^\| `[a-z0-9_A-Z-]+` \| \d* \| .* \| GS\d+ \|$", made, re.M))
    assert rows == {f"| `{case.name}` | {case.number} | {case.what} | {case.code} |" for case in CASES}


MACHINES = {
    "good": lambda m: m.good(),
    "nothing": lambda m: m,
    "broken": lambda m: m.good().set(CUINIT_RC=803, NVML_RC=18),
    "crash": lambda m: m.good().set(FAULT="segv:cuInit"),
    "garbage": lambda m: m.good().set(NAME="garbage").variables(CUDA_VISIBLE_DEVICES="0,\x1b[31m<b>&\"'"),
}


@pytest.mark.parametrize("kind", MACHINES)
def test_reports_are_valid(machine: Machine, kind: str) -> None:
    MACHINES[kind](machine)
    junit = machine.home / "junit.xml"
    result = machine.run("--require", "gpu", "--junit", str(junit))
    jsonschema.validate(result.report, SCHEMA)
    _check_junit(junit, result.report)
    for line in result.text.splitlines():
        assert len(line) <= WIDTH, f"{len(line)} columns: {line}"
    assert "\x1b" not in result.text


def _check_junit(path: Path, report: dict) -> None:
    suite = ElementTree.parse(path).getroot().find("testsuite")
    cases = suite.findall("testcase")
    assert len(cases) == len(report["layers"]) == int(suite.get("tests"))
    assert len(suite.findall(".//failure")) == int(suite.get("failures"))
    failing = [layer for layer in report["layers"] if layer["state"] == "fail" or layer["name"] in report["unmet"]]
    assert int(suite.get("failures")) == len(failing), "a required layer that does not pass is a failure in JUnit"


def test_ascii_terminal_gets_ascii(machine: Machine) -> None:
    result = machine.good().variables(PYTHONIOENCODING="ascii").run()
    assert result.code == 0, result.errors
    assert result.text.isascii()


def test_explain_prints_the_parts_of_a_code(machine: Machine) -> None:
    result = machine.run("--explain", "gs309")
    assert result.code == 0
    for part in ("GS309", "symptom:", "cause:", "detected by:", "fix:", "source:"):
        assert part in result.text


EXPLAINED = [
    ("802", ["CUDA_ERROR_SYSTEM_NOT_READY", "GS308", "GS320", "GS321", "nvidia-fabricmanager"]),
    ("CUDA_ERROR_NO_DEVICE", ["CUDA 100", "GS306", "GS304"]),
    ("cudaErrorInsufficientDriver", ["CUDA 35", "GS502", "GS501"]),
    ("NVML_ERROR_GPU_IS_LOST", ["NVML 15", "GS404"]),
    ("nvml:2", ["NVML_ERROR_INVALID_ARGUMENT"]),
    ("2", ["CUDA_ERROR_OUT_OF_MEMORY", "NVML_ERROR_INVALID_ARGUMENT", "GS706"]),
    ("719", ["CUDA_ERROR_LAUNCH_FAILED", "GS713"]),
    ("cudnn:1002", ["CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", "GS605"]),
    ("CUBLAS_STATUS_ALLOC_FAILED", ["cublas 3", "GS706"]),
    ("ncclSystemError", ["nccl 2", "GS901", "GS902"]),
    ("EIO", ["errno 5", "GS109"]),
    ("SIGILL", ["GS009"]),
    ("exit:137", ["SIGKILL", "GS008"]),
    ("79", ["Xid-79", "GS404"]),
    ("xid:31", ["Xid-31", "GS713"]),
    ("memory", ["layer memory", "GS715"]),
    ("cudnn", ["layer cudnn", "GS605"]),
]


def test_explain_knows_the_numbers_and_names_of_cuda_and_nvml() -> None:
    for asked, words in EXPLAINED:
        text = explain(asked)
        assert not [word for word in words if word not in text], text


NUMBERS = [entry for table in numbers.tables().values() for entry in table.values()]


def test_the_findings_of_a_number_exist() -> None:
    assert not [entry for entry in NUMBERS if not {*entry.findings} <= {*catalogue()}]


def test_the_answer_comes_before_the_table(machine: Machine) -> None:
    lines = machine.good().set(CUINIT_RC=803).run("--require", "gpu").text.splitlines()[2:]
    assert lines[0].startswith("FAIL, required gpu: "), lines[0]
    assert lines[2].startswith("CAUSE GS310"), lines[2]
    fix = next(n for n, line in enumerate(lines) if line.startswith("  fix"))
    table = next(n for n, line in enumerate(lines) if line.startswith("┌"))
    assert fix < 8 < table or fix < table < 14, "\n".join(lines[:16])


def test_nothing_tested_is_no_pass(machine: Machine) -> None:
    result = machine.run()
    assert (result.code, result.report["verdict"]) == (0, "untested"), result.text
    assert result.text.splitlines()[2].startswith("NO GPU TESTED")
    assert "PASS" not in result.text
    assert "not installed, not promised" in " ".join(result.text.split())
    assert len([line for line in result.text.splitlines() if "not promised" in line]) <= 2, result.text


# One cause in several words, or causes that the finding itself has told apart.
ONE_CAUSE = {"GS003", "GS004"}


def test_a_finding_of_a_broken_gpu_or_library_says_how_to_tell_its_causes_apart() -> None:
    """Where the GPU or a piece of software may be at fault, a card must not be thrown away on a guess."""
    several = re.compile(r"faulty GPU|wedged GPU|; (else|rarer|seldom)")
    asked = [entry for entry in catalogue().values() if several.search(entry.cause) and entry.id not in ONE_CAUSE]
    assert len(asked) > 20
    assert not [f"{entry.id}: {entry.cause}" for entry in asked if not entry.tell_apart]


def test_the_fix_names_what_tells_two_causes_apart(machine: Machine) -> None:
    result = machine.good().set(CUINIT_RC=805).run("--require", "gpu")
    assert "get_server_list" in result.report["cause"]["apart"]
    assert "  check        " in result.text
