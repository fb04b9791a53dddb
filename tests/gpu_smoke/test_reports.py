"""The texts of findings: complete, found by what a person saw, and true of what was tested."""

from __future__ import annotations

import re
import tomllib

from tests.gpu_smoke.smoke_cases import CASES, CUDA_CODES, NVML_CODES
from tests.gpu_smoke.smoke_machine import PACKAGE_ROOT, Machine, told

FINDINGS = PACKAGE_ROOT / "gpu_smoke" / "findings"
TABLES = {path.stem: tomllib.loads(path.read_text()) for path in sorted(FINDINGS.glob("*.toml"))}
NUMBERS = [entry for source in TABLES.pop("numbers").values() for entry in source.values()]
SHARED, MESSAGES = TABLES.pop("fix_lines"), TABLES.pop("messages")
CODES = {code: entry for layer in TABLES.values() for code, entry in layer.items()}
NOT_INJECTED = {"GS004"}  # guards against our own mistakes


def test_every_code_has_an_injected_failure() -> None:
    covered = {case.code for case in CASES} | {code for _, code, _ in [*CUDA_CODES, *NVML_CODES]}
    missing = {*CODES} - covered - NOT_INJECTED
    assert not missing, f"no test injects {sorted(missing)}"


def test_codes_are_complete() -> None:
    assert sum(len(layer) for layer in TABLES.values()) == len(CODES), "two findings claim a code"
    for code, entry in CODES.items():
        for field in ("title", "symptom", "cause", "detected_by", "source"):
            assert entry[field].strip(), f"{code} has no {field}"
        fixes = [entry["fix"]] if isinstance(entry["fix"], str) else [*entry["fix"].values()]
        assert all(text.strip() and "\n" not in text for text in fixes if text), f"{code}: a fix is one line"
        assert "".join([entry["symptom"], entry["cause"], entry["detected_by"], *fixes]).isascii(), code
        assert isinstance(entry["fix"], str) or {"anywhere", *SHARED} & {*entry["fix"]}, f"{code}: no fix elsewhere"


EXPLAINED = [
    ("gs309", ["GS309", "symptom:", "cause:", "detected by:", "fix:", "source:"]),
    ("802", ["CUDA_ERROR_SYSTEM_NOT_READY", "GS308", "GS321", "nvidia-fabricmanager"]),
    ("2", ["CUDA_ERROR_OUT_OF_MEMORY", "NVML_ERROR_INVALID_ARGUMENT", "smaller batch", "GS706"]),
    ("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", ["cudnn 1001", "GS721"]),
    ("command terminated with exit code 137", ["SIGKILL", "GS008"]),
    ("libcudart.so.12: cannot open shared object file", ["GS506"]),
    ("NVRM: Xid (PCI:0000:3b:00): 31, pid=2213", ["Xid-31", "CUDA_LAUNCH_BLOCKING=1", "GS713"]),
    ("training hangs, a timeout", ["The nearest", "GS905"]),
    ('docker: could not select device driver "" with capabilities: [[gpu]]', ["GS108"]),
    ("memory", ["layer memory", "GS715"]),
]


def test_explain() -> None:
    for asked, words in EXPLAINED:
        result = told("--explain", asked)
        assert (result.code, [word for word in words if word not in result.text]) == (0, []), result.text
    for asked in ("all", "GS502", "GS904", "35"):
        text = told("--explain", asked).text
        assert (text != "", re.findall(".*[{}].*", text)) == (True, []), f"--explain {asked}: a field of a report"
    result = told("--explain", "NVRM: Xid (PCI:0000:3b:00): 999, pid=1")
    assert (result.code, "docs.nvidia.com/deploy/xid-errors" in result.errors) == (2, True), result.errors


def test_the_findings_of_a_number_exist() -> None:
    assert not [entry for entry in NUMBERS if not {*entry.get("findings", ())} <= {*CODES}]
    assert {code for told in MESSAGES.values() for code in told.split() if code.startswith("GS")} <= {*CODES}


def test_nothing_tested_is_no_pass(machine: Machine) -> None:
    result = machine.run()
    assert (result.code, result.report["verdict"]) == (0, "untested"), result.text
    assert result.text.splitlines()[2].startswith("NO GPU TESTED")
    assert "PASS" not in result.text
    assert " ".join(result.text.split()).count("not installed, and this image does not need it") == 1, result.text


def test_a_finding_of_a_broken_gpu_or_library_says_how_to_tell_its_causes_apart() -> None:
    """Where the GPU or a piece of software may be at fault, a card must not be thrown away on a guess."""
    several = re.compile(r"faulty GPU|wedged GPU|; (else|rarer|seldom)")
    asked = {code: entry for code, entry in CODES.items() if several.search(entry["cause"])}
    assert len(asked) > 20
    assert not [f"{code}: {entry['cause']}" for code, entry in asked.items() if "tell_apart" not in entry]


def test_the_fix_names_what_tells_two_causes_apart(machine: Machine) -> None:
    result = machine.good().set(CUINIT_RC=805).run("--require", "gpu")
    assert "get_server_list" in result.report["cause"]["apart"]
    assert "  check        " in result.text
