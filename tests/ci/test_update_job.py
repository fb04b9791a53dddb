"""The weekly job of each CI system runs scripts/propose on main with its token, and nothing else runs with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.answers import AnswerSet
from tests.ci import github, gitlab
from tests.conftest import git
from tests.jenkins.pipelines.children import Builds
from tests.jenkins.runner import run_pipeline

pytestmark = pytest.mark.slow
TOKEN = "s3cret-token"
ANSWERS = AnswerSet("service", "plain", ci=("jenkins", "github", "gitlab"), update_job=True)
PROPOSE = '#!/usr/bin/env bash\necho "proposed to $(git remote get-url origin) with ${#UPDATE_TOKEN} letters"\n'


@pytest.fixture
def child(make_child: Callable[..., Path], tmp_path: Path) -> Path:
    """Return a child whose scripts/propose tells that it ran, and with what."""
    child = make_child(ANSWERS, name="weekly", folder=tmp_path)
    (child / "scripts" / "propose").write_text(PROPOSE)
    git(child, "-c", "user.name=O", "-c", "user.email=o@example.com", "commit", "--quiet", "--all", "--message=Tell")
    return child


def jobs_of(system: str, it: Builds, child: Path, request: pytest.FixtureRequest) -> tuple[set[str], str]:
    """Start the weekly build of a system; return the jobs that ran, and the log."""
    if system == "jenkins":
        secrets: dict[str, Any] = {"template-update": TOKEN}
        trace = run_pipeline(child / "update.Jenkinsfile", child, labels=dict(it.agents.labels), credentials=secrets)
        assert trace.result == "SUCCESS", trace.log
        return {stage.name for stage in trace.all_stages if stage.ran}, trace.log
    given = (child, it.agents, it.credentials, "schedule")
    if system == "github":
        done = github.act(*given, [".github/workflows/update.yml"], {}, {"UPDATE_TOKEN": TOKEN})
    else:
        tools = request.getfixturevalue("gitlab_tools")
        done = gitlab.pipeline(
            *given, tools, {"UPDATE_TOKEN": TOKEN, "CI_PROJECT_URL": "https://gitlab.com/acme/weekly"}
        )
    assert (done.code, done.failed) == (0, frozenset()), done.log
    return set(done.passed), done.log


@pytest.mark.parametrize("system", ["github", "gitlab", "jenkins"])
def test_the_weekly_job_proposes_and_nothing_else_runs(
    system: str, builds: Callable[..., Builds], child: Path, request: pytest.FixtureRequest
) -> None:
    ran, log = jobs_of(system, builds("service"), child, request)
    assert ran == {"Propose" if system == "jenkins" else "update"}, log
    assert f"with {len(TOKEN)} letters" in log
    assert TOKEN not in log
    assert system != "gitlab" or "proposed to https://gitlab.com/acme/weekly.git" in log
