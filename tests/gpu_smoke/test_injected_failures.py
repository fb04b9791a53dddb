"""Each injected failure: the report names exactly the right cause, layer and fix."""

from __future__ import annotations

import pytest

from tests.gpu_smoke.smoke_cases import CASES, CUDA_CODES, NVML_CODES, Case
from tests.gpu_smoke.smoke_machine import Machine, Result


def _told(result: Result) -> str:
    return f"\n{result.text}\n{result.errors}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_names_cause_and_fix(machine: Machine, case: Case) -> None:
    case.setup(machine)
    result = machine.run(*case.args)
    assert result.report, f"{case.name}: no report{_told(result)}"
    assert result.code == case.exit, f"{case.name}: exit code {result.code}, want {case.exit}{_told(result)}"
    layer = result.layer(case.layer)
    codes = [found["code"] for found in layer["findings"]]
    if case.code != "GS007":
        assert case.code in codes, f"{case.name}: layer {case.layer} has {codes}, want {case.code}{_told(result)}"
    told = result.report["cause"] if case.code == "GS007" else result.finding(case.code)
    assert case.fix in told["fix"], f"{case.name}: the fix is {told['fix']!r}, want {case.fix!r}"
    if case.cause:
        cause = result.report["cause"]
        assert (cause["layer"], cause["code"]) == (case.layer, case.code), f"{case.name}: cause {cause}{_told(result)}"


@pytest.mark.parametrize("major", [pytest.param(12, marks=pytest.mark.release), 13])
@pytest.mark.parametrize(("code", "finding", "fix"), CUDA_CODES)
def test_cuda_code_under_the_real_runtime(machine: Machine, major: int, code: int, finding: str, fix: str) -> None:
    result = machine.real(major).set(CUINIT_RC=code).run("--require", "gpu")
    layer = "user-driver" if code == 34 else "driver-init"
    assert result.code == 1, _told(result)
    assert result.report["cause"]["code"] == finding, f"CUDA {code}{_told(result)}"
    assert result.report["cause"]["layer"] == layer, f"CUDA {code}{_told(result)}"
    assert fix in result.report["cause"]["fix"], f"CUDA {code}: {result.report['cause']['fix']}"
    seen = result.report["facts"]["runtime"]["count_rc"]
    assert seen == code, f"NVIDIA's runtime {major} turns {code} into {seen}"


@pytest.mark.parametrize(("code", "finding", "fix"), NVML_CODES)
def test_nvml_code(machine: Machine, code: int, finding: str, fix: str) -> None:
    result = machine.good().set(NVML_RC=code, CTX_RC=999).run("--require", "gpu")
    assert result.code == 1, _told(result)
    cause = result.report["cause"]
    assert (cause["layer"], cause["code"]) == ("nvml", finding), f"NVML {code}{_told(result)}"
    assert fix in cause["fix"], f"NVML {code}: {cause['fix']}"


@pytest.mark.parametrize(
    "broken", [{"NVML_RC": 18}, {"NVML_RC": 999}, {"NVML_DEVICE_RC": 15}, {"RECOVERY": 1}], ids=str
)
def test_nvml_alone_never_decides(machine: Machine, broken: dict) -> None:
    """A GPU that computes passes; what NVML says of it is a warning."""
    result = machine.good().set(**broken).run("--require", "gpu")
    assert result.code == 0, _told(result)
    assert [found["severity"] for found in result.layer("nvml")["findings"]] == ["warning"], _told(result)


@pytest.mark.parametrize("major", [12, 13])
def test_runtime_says_35_without_any_libcuda(machine: Machine, major: int) -> None:
    result = machine.nodes().kernel().runtime(major).run("--require", "gpu")
    facts = result.report["facts"]["runtime"]
    assert (facts["count_rc"], facts["driver_version"]) == (35, 0), facts
    assert result.report["cause"]["code"] == "GS211", _told(result)
