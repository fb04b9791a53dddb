"""docs/ci.md, "One pipeline for all repositories": what the company keeps and what a child keeps are valid."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.answers import AnswerSet
from tests.conftest import ROOT
from tests.templates.checks import workflow_error

PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8").split("## One pipeline for all repositories")[1]


@pytest.mark.slow
def test_github_takes_the_company_s_workflow_and_the_child_s_ten_lines(render: Callable[[AnswerSet], Path]) -> None:
    child = render(AnswerSet("service", "plain", ci=("jenkins", "github")))
    copied = (child / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    reusable = re.sub(r"(?ms)^on:\n.*?\n\n", "on: workflow_call\n\n", copied)
    reusable = reusable.replace("/topic-finder:ci-", "/${{ github.event.repository.name }}:ci-")
    assert "topic-finder" not in reusable, "the workflow of the company names one repository"
    assert workflow_error(reusable) == ""
    [ours, *_] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert workflow_error(ours) == ""
    assert len(ours.splitlines()) <= 11
    jobs = yaml.safe_load(reusable)["jobs"].values()
    asked = {name: level for job in jobs for name, level in job.get("permissions", {}).items()}
    assert yaml.safe_load(ours)["jobs"]["service"]["permissions"] == asked
