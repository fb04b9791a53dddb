"""What only Jenkins has: an approval in the build, a restart from a stage, agents by label.

Never run: a Jenkins server.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.ci import jenkins
from tests.ci.children import Builds, commit, quick_checks
from tests.ci.runs import BRANCH
from tests.conftest import ROOT
from tests.jenkins.runner import check, run_pipeline

CHILD = ROOT / "templates" / "shared" / "Jenkinsfile"
OURS = (ROOT / "Jenkinsfile", ROOT / "hooks" / "fleet.Jenkinsfile")
pytestmark = pytest.mark.needs("groovy")


@pytest.fixture
def it(builds: Callable[..., Builds]) -> Builds:
    """A batch job whose lint and tests say at once that all is good."""
    made = builds("batch")
    quick_checks(made.child)
    commit(made.child, "Quick checks")
    return made


def test_jenkins_would_read_ours() -> None:
    """tests/templates checks those of children."""
    assert check(*OURS) == []


def test_a_refused_approval_deploys_nothing_and_a_failed_deployment_is_repeated_without_building(it: Builds) -> None:
    """As "Restart from Stage" does: approved again, the digest that was smoked is deployed, and nothing is built."""
    run, cluster = partial(it.run, jenkins.trace, "main"), it.credentials["kubeconfig"]
    refused = run(approve=False)
    [asked] = [event for event in refused.events if event["step"] == "input"]
    assert (refused.result, asked["submitter"], asked["label"]) == ("ABORTED", "deployers", None), refused.log
    assert asked["message"] == "Deploy deploy/overlays/cron with the credential kubeconfig?"
    [digest] = it.released().values()
    assert it.deployed() == ""
    text = cluster.read_text()
    cluster.write_text("no cluster\n")
    last = ["Approve", "Deploy"]
    failed = run(only=last, after=refused)
    assert (failed.stage("Deploy").result, it.deployed()) == ("FAILURE", ""), failed.log
    cluster.write_text(text)
    trace = run(only=last, after=failed)
    assert trace.result == "SUCCESS", trace.log
    assert f"/{it.child.name}@{digest}" in it.deployed()
    # Jenkins restarts the outer stages alone: no deployment without its approval.
    assert [trace.stage(name).path for name in last] == [("Deployment", name) for name in last]
    assert "preserveStashes(" in (it.child / "Jenkinsfile").read_text()


def test_agents_and_gpus_are_named_by_the_environment_and_the_lock(it: Builds) -> None:
    """A push starts a build that nobody gives a parameter: labels come from the folder or from Jenkins itself."""
    for label in ("docker", "gpu"):
        it.agents.labels[f"our-{label}"] = it.agents.labels.pop(label)
    labels = {"CPU_LABEL": "our-docker", "GPU_LABEL": "our-gpu"}
    trace = it.run(jenkins.trace, "branch", variables=labels)
    assert trace.result == "SUCCESS", trace.log
    ran = {name: trace.stage(name).label for name in ("Build and push", "GPU smoke test")}
    assert ran == {"Build and push": "our-docker", "GPU smoke test": "our-gpu"}
    [lock] = [event["resource"] for event in trace.events if event["step"] == "lock"]
    used = [e["output"] for e in trace.events if e["step"] == "sh" and e["label"] == "our-gpu"]
    assert lock == "gpu-our-gpu-node-1"
    assert all(re.search(r"(?m)^\+ .*GPUS=0\b", output) for output in used), "not on the GPU of the lock"


def test_branches_whose_names_are_alike_have_images_of_their_own(tmp_path: Path) -> None:
    """The name that the pipeline gives an image is a tag, whatever the branch is called, and no other branch has it."""
    [names_image] = re.findall(r"(?ms)^    environment \{\n(.*?)^    \}", CHILD.read_text())
    (tmp_path / "Jenkinsfile").write_text(
        f"pipeline {{\n agent none\n environment {{\n{names_image}\n}}\n"
        + 'stages { stage("A") { steps { echo "${IMAGE}" } } } }'
    )
    names = (BRANCH, "feature/a", "feature-a", "fix#1", "fix%1", "修正", "追加", "dependabot/npm_and_yarn/" + 100 * "x")
    file, work = tmp_path / "Jenkinsfile", tmp_path / "work"
    runs = [run_pipeline(file, tmp_path, workdir=work, env={"BRANCH_NAME": one}) for one in names]
    tags = {event["text"].rpartition(":")[2] for run in runs for event in run.events if event["step"] == "echo"}
    assert len(tags) == len(names), tags
    assert all(re.fullmatch(r"ci-[A-Za-z0-9_.-]{1,125}", tag) for tag in tags), tags
