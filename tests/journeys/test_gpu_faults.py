"""My GPU does not work: from the message in docs/gpu-stack.md to cause and fix, on machines that are broken so."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT
from tests.gpu_smoke.conftest import fakes, machine  # noqa: F401 - fixtures
from tests.gpu_smoke.smoke_cases import CASES
from tests.gpu_smoke.smoke_machine import Machine

ROW = re.compile(r"(?m)^\| `([^`]+)`[^|]*\| [^|]+ \| (GS[^|]+) \|$")
SYMPTOMS = ROW.findall((ROOT / "docs/gpu-stack.md").read_text(encoding="utf-8"))
pytestmark = [pytest.mark.slow, pytest.mark.needs("gcc")]


@pytest.mark.parametrize(("message", "codes"), SYMPTOMS)
def test_a_message_leads_to_the_fix(machine: Machine, message: str, codes: str) -> None:  # noqa: F811 - a fixture
    assert len(SYMPTOMS) == 10, "docs/gpu-stack.md lists ten messages"
    explained = machine.run("--explain", message)
    assert explained.code == 0, explained.errors
    assert set(codes.split(", ")) & set(re.findall(r"GS\d+", explained.text)), f"{message}: {explained.text}"
    code = codes.split(", ")[0]
    case = min((one for one in CASES if one.code == code), key=lambda one: not one.cause)
    case.setup(machine)
    found = machine.run(*case.args)
    assert code in found.text, f"{message}, {case.name}: {found.text}"
    assert case.fix in found.finding(code)["fix"], f"{message}, {case.name}: {found.text}"
