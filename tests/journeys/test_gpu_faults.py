"""My GPU does not work: from the message in docs/gpu-stack.md to cause and fix, on machines that are broken so."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT
from tests.gpu_smoke.conftest import fakes, machine  # noqa: F401 - fixtures
from tests.gpu_smoke.smoke_cases import CASES
from tests.gpu_smoke.smoke_machine import Machine
from tests.gpu_smoke.smoke_setups import no_libcuda, second_copy

ROW = re.compile(r"(?m)^\| `([^`]+)`[^|]*\| [^|]+ \| (GS[^|]+) \|$")
SYMPTOMS = ROW.findall((ROOT / "docs/gpu-stack.md").read_text(encoding="utf-8"))
pytestmark = [pytest.mark.slow, pytest.mark.needs("gcc")]


@pytest.mark.parametrize(("message", "codes"), SYMPTOMS)
def test_a_message_leads_to_the_fix(machine: Machine, message: str, codes: str) -> None:  # noqa: F811 - a fixture
    assert len(SYMPTOMS) == 14, "docs/gpu-stack.md lists fourteen messages"
    explained = machine.run("--explain", message)
    assert explained.code == 0, explained.errors
    assert set(codes.split(", ")) & set(re.findall(r"GS\d+", explained.text)), f"{message}: {explained.text}"
    code = codes.split(", ")[0]
    case = min((one for one in CASES if one.code == code), key=lambda one: not one.cause)
    case.setup(machine)
    found = machine.run(*case.args)
    assert code in found.text, f"{message}, {case.name}: {found.text}"
    assert case.fix in found.finding(code)["fix"], f"{message}, {case.name}: {found.text}"


def own_package(m: Machine) -> None:
    """A project that has installed a second cuBLAS from PyPI."""
    second_copy(m, "libcublas.so.13", "site-packages/nvidia/cublas/lib")
    record = m.home / "site-packages/nvidia_cublas-13.1.dist-info/RECORD"
    record.parent.mkdir()
    record.write_text("nvidia/cublas/lib/libcublas.so.13,,\n")
    record.with_name("METADATA").write_text("Name: nvidia-cublas\nVersion: 13.1\n")


# A fault, words that lead to its mend, and words of other findings that would lead elsewhere.
REPORTS = {
    "old driver": (lambda m: m.good().kernel("535.183.01").set(CUDA_VERSION=12020, RUNTIME_RC=35),
                   ["torch-cu12", "scripts/update --answer gpu_driver=525"], ["ALSO"]),
    "no NVIDIA runtime": (lambda m: no_libcuda(m).variables(KUBERNETES_SERVICE_HOST="10.0.0.1"),
                          ["Set `runtimeClassName: nvidia`"], ["GS408"]),
    "second copy": (own_package, ["(package nvidia-cublas)", "scripts/lock"], []),
    "lost GPU": (lambda m: m.good().set(NVML_RC=15, CUINIT_RC=999), ["CAUSE GS404"], ["ALSO"]),
    "full": (lambda m: m.good().set(FREE_MIB=300, USER_PID=4242), ["process 4242", "/proc/PID/cgroup", "PASS"], []),
}  # fmt: skip


@pytest.mark.parametrize("fault", REPORTS)
def test_a_report_shows_the_mend_once(machine: Machine, fault: str) -> None:  # noqa: F811 - a fixture
    setup, wanted, unwanted = REPORTS[fault]
    setup(machine)
    text = " ".join(machine.run("--require", "gpu").text.split())
    assert [word for word in wanted if word not in text] == [], text
    assert [word for word in unwanted if word in text] == [], text
