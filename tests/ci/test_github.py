"""What only GitHub has: a token instead of a password, and a table of the reports on the page of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from tests.answers import AnswerSet
from tests.ci import farm, github
from tests.ci.children import Builds, commit, quick_checks
from tests.conftest import ROOT


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


def test_the_table_of_reports_hides_nothing(tmp_path: Path) -> None:
    """What failed is named; a report that is missing or cut off never looks like tests that passed."""
    (tmp_path / "unit.xml").write_text(
        '<testsuite><testcase name="good"/>'
        '<testcase classname="t" name="bad[a|b`&#10;| all.xml | 9 | 0 | 0 |]"><failure/></testcase>'
        '<testcase name="left out"><skipped/></testcase></testsuite>'
    )
    (tmp_path / "cut.xml").write_text("<testsuite><testcase")
    (tmp_path / "less.xml").write_text('<testsuite failures="5"><testcase name="good"/></testsuite>')
    names = ("unit.xml", "cut.xml", "gone.xml", "less.xml")
    command = [sys.executable, "-m", "gpu_repo_runtime.summary", *(str(tmp_path / name) for name in names)]
    around = os.environ | {"PYTHONPATH": str(ROOT / "runtime" / "src")}
    done = subprocess.run(command, env=around, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[2:] == [
        "| unit.xml | 1 | 1 | 1 |",
        r"| ↳ `t bad[a\|b' \| all.xml \| 9 \| 0 \| 0 \|]` | | failed | |",
        "| cut.xml | no report | | |",
        "| gone.xml | no report | | |",
        "| less.xml | 1 | 0 | 0 |",
        "| ↳ counts failures or errors that no test in it has | | failed | |",
    ]


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
