"""The weekly job of each CI system runs scripts/propose on main with its token, and nothing else runs with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ci.children import Builds, commit
from tests.ci.runs import Pipeline, Run

TOKEN = "s3cret-token"
PIPELINE = Pipeline("update.Jenkinsfile", (".github/workflows/update.yml",))
PROPOSE = '#!/usr/bin/env bash\necho "proposed to $(git remote get-url origin) with ${#UPDATE_TOKEN} letters"\n'


@pytest.mark.slow
def test_the_weekly_job_proposes_and_nothing_else_runs(
    system: str, builds: Callable[..., Builds], run: Callable[..., Run]
) -> None:
    it = builds("batch", update_job=True)
    (it.child / "scripts" / "propose").write_text(PROPOSE)
    commit(it.child, "Tell")
    told = run(it.child, it.agents, {"template-update": TOKEN}, "schedule", PIPELINE)
    assert (told.passed, told.failed, told.code) == ({"update"}, set(), 0), told.log
    assert f"with {len(TOKEN)} letters" in told.log
    assert TOKEN not in told.log
    assert system != "gitlab" or f"proposed to https://gitlab.com/acme/{it.child.name}.git" in told.log
