"""What only GitHub has: a token instead of a password, and a table of the reports on the page of a run."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from tests.answers import AnswerSet
from tests.ci import farm, github
from tests.ci.children import Builds, commit, quick_checks


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "pushed"), [(f"printf %s {farm.STAGING_LOGIN[1]}", True), ("false", False)], ids=["token", "fails"]
)
def test_a_command_gives_the_password(builds: Callable[..., Builds], command: str, pushed: bool) -> None:
    """No password is stored; where the command gives none, nothing is pushed with whatever login is there."""
    it = builds("batch")
    quick_checks(it.child)
    commit(it.child, "Quick checks")
    it.credentials.clear()
    given = {"REGISTRY_USER": farm.STAGING_LOGIN[0], "REGISTRY_PASSWORD_COMMAND": command}
    told = it.run(github.run, "change", variables=given)
    assert bool(it.staged()) == ("smoke" in told.passed) == pushed, told.log
    assert pushed or "REGISTRY_PASSWORD_COMMAND gave no password" in told.log


@pytest.mark.slow
@pytest.mark.parametrize(("project_type", "name"), [("batch", "promote"), ("library", "publish")])
def test_what_releases_takes_nothing_that_a_first_attempt_of_it_left(
    render: Callable[[AnswerSet], Path], project_type: str, name: str
) -> None:
    """GitHub offers a second attempt the artifacts of the first: an image built again would meet the older's name."""
    file = render(AnswerSet(project_type, "plain", ci=("github",))) / ".github" / "workflows" / "ci.yml"
    jobs = yaml.safe_load(file.read_text())["jobs"]
    taken = [step["with"] for step in jobs[name]["steps"] if "download-artifact" in step.get("uses", "")]
    patterns = [given.get("pattern", given.get("name", "*")) for given in taken]
    wanted = {one for one in jobs[name]["needs"] if one != "package"}
    assert {job for job in jobs for pattern in patterns if fnmatch(job, pattern)} == wanted, patterns
