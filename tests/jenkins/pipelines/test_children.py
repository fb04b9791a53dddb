"""The children's pipelines, executed: what runs where, what is published, and what a person decides.

farm.py says what is real here and what stands in. Never run: a Jenkins server, a GPU, a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import CATALOG, TYPES
from tests.conftest import ROOT, git
from tests.jenkins.pipelines import farm
from tests.jenkins.pipelines.children import CHECKS, KINDS, RELEASING, Builds, ran, said
from tests.jenkins.pipelines.conftest import commit
from tests.jenkins.runner import Trace, run_pipeline

RELEASE = {"Promote": "docker"}
DEPLOY = {"Approve": None, "Deploy": "kubectl"}
EXPECTED: dict[tuple[str, str], dict[str, str | None]] = {  # the stages after the checks
    ("library", "tag"): {"Publish": "docker"},
    ("batch", "main"): RELEASE | DEPLOY,
    ("batch", "tag"): RELEASE,
    ("service", "main"): RELEASE | DEPLOY,
    ("service", "tag"): RELEASE,
}
FAST = [("library", "tag"), ("batch", "main"), ("service", "main")]  # what publishes, run by CI
FIRST_CHECK = ("plain", "library", "tag")  # other tests start from this very build
HELD_BACK = [("library", "main"), ("batch", "branch"), ("batch", "pull request")]  # and what does not


def marks(framework: str, project_type: str, kind: str) -> list[pytest.MarkDecorator]:
    """Return what says which run has it: `make test` has one, CI one of each type, a release all."""
    if (framework, project_type, kind) == ("plain", "batch", "main"):
        return []
    return [pytest.mark.slow if framework == "plain" and (project_type, kind) in FAST else pytest.mark.release]


# A child on the rows of another framework has no other pipeline and no other image.
OWN_ROWS = [one["name"] for one in CATALOG["frameworks"] if one["image_framework"] == one["name"]]
EVERY = [
    pytest.param(framework, project_type, kind, marks=marks(framework, project_type, kind))
    for framework in OWN_ROWS
    for project_type in TYPES
    for kind in KINDS
]
SECRETS = (farm.STAGING_LOGIN[1], farm.RELEASE_LOGIN[1], farm.INDEX_LOGIN[1])
Checked = Callable[[str], tuple[Builds, Trace]]


def test_the_pipeline_does_not_depend_on_the_framework() -> None:
    """CI runs plain children: theirs is the pipeline of all (tests/templates checks every Jenkinsfile)."""
    assert "framework" not in (ROOT / "templates" / "shared" / "Jenkinsfile").read_text()


@pytest.mark.parametrize(("framework", "project_type", "kind"), EVERY)
def test_what_runs_where_and_what_is_published(
    builds: Callable[..., Builds], first_check: Checked, framework: str, project_type: str, kind: str
) -> None:
    """Every build checks everything; only main and a tag publish, the digest that was smoked and nothing else.

    With torch and tensorflow the child's own unit tests run too, not one in their place.
    """
    if (framework, project_type, kind) == FIRST_CHECK:
        it, trace = first_check(project_type)
        published = it.first_published
    else:
        own = framework != "plain"
        it = builds(project_type, framework, shellcheck=own and kind == "main", quick=not own)
        trace = it.run(**KINDS[kind])
        published = it.published()
    assert trace.result == "SUCCESS", trace.log
    newest = {"Cancel older builds": None} if kind in ("branch", "pull request") else {}
    assert ran(trace) == newest | CHECKS[project_type] | EXPECTED.get((project_type, kind), {})
    smoke = trace.stage("GPU smoke test")
    [slot] = smoke.locks
    device = int(slot.rpartition("-")[2]) - 1
    on_it = [command.script for command in smoke.commands if re.search(rf"^\+ .*GPUS={device}\b", command.output, re.M)]
    assert len(on_it) == len(smoke.commands), f"not on the GPU that {slot} is: {trace.log}"
    assert trace.stage("Test").reports[0].total >= 1
    assert smoke.reports[0].total >= 2
    assert not any(secret in trace.log for secret in SECRETS)
    if project_type == "library":
        files = {f"{it.child.name.replace('-', '_')}-0.1.0{end}" for end in ("-py3-none-any.whl", ".tar.gz")}
        assert published == (files if kind == "tag" else set())
        return
    [digest] = set(it.staged().values())
    assert it.released() == {"main": {"main": digest}, "tag": {"v0.1.0": digest}}.get(kind, {})
    assert f"@{digest}" in said(trace, "GPU smoke test"), "the smoke test did not take the image by its digest"
    assert (f"/{it.child.name}@{digest}" in it.deployed()) == (kind == "main")
    if kind == "main":  # of build 1, in which the shell knows no parameter
        overlay = "prod" if project_type == "service" else "cron"
        assert f"+ scripts/deploy {overlay}" in said(trace, "Deploy")


@pytest.mark.parametrize(
    ("project_type", "kind"),
    [
        pytest.param(
            name,
            kind,
            marks=[pytest.mark.slow if (name, kind) in HELD_BACK else pytest.mark.release],
        )
        for name in TYPES
        for kind in KINDS
        if (name, kind) not in FAST
    ],
)
def test_only_main_and_a_tag_release(checked: Checked, project_type: str, kind: str) -> None:
    """After the same checks, every other kind of build leaves out what releases."""
    expected = EXPECTED.get((project_type, kind), {})
    it, before = checked(project_type)
    stages = {stage.name for stage in before.all_stages} & set(RELEASING)
    trace = it.run(**KINDS[kind], only=stages - expected.keys(), after=before)
    assert trace.result == "SUCCESS", trace.log
    assert {name: trace.skipped[name] for name in stages} == {
        name: "only" if name in expected else "when" for name in stages
    }


@pytest.mark.slow
def test_a_refused_approval_deploys_nothing(checked: Checked) -> None:
    """The digest is promoted, the person says no: the build is aborted and the cluster hears nothing."""
    it, before = checked("batch")
    trace = it.run(branch="main", approve=False, only=["Promote", "Approve", "Deploy"], after=before)
    assert trace.result == "ABORTED", trace.log
    [asked] = [event for event in trace.events if event.step == "input"]
    assert asked["submitter"] == "deployers"
    assert asked["message"] == "Deploy deploy/overlays/cron with the credential kubeconfig?"
    assert "main" in it.released()
    assert "Deploy" not in trace.ran
    assert it.deployed() == ""


@pytest.mark.slow
def test_a_staging_tag_that_was_moved_since_the_smoke_test_is_not_released(checked: Checked) -> None:
    """Whoever may push to staging gives the tag of a checked build another image: released is what was smoked."""
    it, before = checked("batch")
    old = git(it.child, "rev-parse", "HEAD").strip()
    staging = it.repository.replace("ml/", "ml-staging/")
    [smoked] = set(re.findall(r"@(sha256:[0-9a-f]{64})", said(before, "GPU smoke test")))
    [tag] = [tag for tag, digest in it.staged().items() if digest == smoked and tag.startswith("ci-v0.1.0")]
    next(it.child.glob("src/*/model.py")).with_name("note.py").write_text('"""Another."""\n')
    commit(it.child, "Another image")
    assert it.run(branch="another", only=["Build and push"]).result == "SUCCESS"
    [another] = it.waiting("another").values()
    assert another != smoked
    it.registry.copy(staging, another, staging, tag)
    git(it.child, "checkout", "--quiet", "-B", "smoked", old)
    trace = it.run(tag="v0.6.0", only=["Promote"], after=before)
    it.registry.copy(staging, smoked, staging, tag)
    assert (trace.result, it.released()["v0.6.0"]) == ("SUCCESS", smoked), trace.log


def test_branches_whose_names_are_alike_have_images_of_their_own(tmp_path: Path) -> None:
    """The name that the pipeline gives an image is a tag, whatever the branch is called, and no other branch has it."""
    text = (ROOT / "templates" / "shared" / "Jenkinsfile").read_text()
    [names_image] = re.findall(r"(?ms)^    environment \{\n(.*?)^    \}", text)
    (tmp_path / "Jenkinsfile").write_text(
        f"pipeline {{\n agent none\n environment {{\n{names_image}\n}}\n"
        + 'stages { stage("A") { steps { echo "${IMAGE}" } } } }'
    )
    names = ("feature/a", "feature-a", "fix#1", "fix%1", "修正", "追加", "dependabot/npm_and_yarn/" + 100 * "x")
    runs = [run_pipeline(tmp_path / "Jenkinsfile", tmp_path, workdir=tmp_path / "work", branch=one) for one in names]
    tags = {run.stage("A").of("echo")[0]["text"].rpartition(":")[2] for run in runs}
    assert len(tags) == len(names), tags
    assert all(re.fullmatch(r"ci-[A-Za-z0-9_.-]{1,125}", tag) for tag in tags), tags


@pytest.mark.slow
def test_a_tag_that_is_called_main_is_not_main(checked: Checked) -> None:
    it, before = checked("batch")
    released = it.released()
    trace = it.run(tag="main", only=["Promote", "Approve", "Deploy"], after=before)
    done = {stage.name for stage in trace.all_stages if stage.commands}
    assert not {"Promote", "Approve", "Deploy"} & done, trace.log
    assert (it.released(), it.deployed()) == (released, "")


@pytest.mark.slow
def test_a_failed_deployment_is_tried_again_without_building(checked: Checked) -> None:
    """As "Restart from Stage" does: the digest that was smoked is deployed, and nothing is built or pushed."""
    it, before = checked("batch")
    [digest] = set(re.findall(r"@(sha256:[0-9a-f]{64})", said(before, "GPU smoke test")))
    cluster = it.credentials["kubeconfig"]
    text = cluster.read_text()
    cluster.write_text("no cluster\n")
    it.registry.copy(it.repository.replace("ml/", "ml-staging/"), digest, it.repository, "main")  # after other tests
    failed = it.run(branch="main", only=["Promote", "Approve", "Deploy"], after=before)
    assert (failed.stage("Deploy").result, it.deployed()) == ("FAILURE", ""), failed.log
    cluster.write_text(text)
    trace = it.run(branch="main", only=["Approve", "Deploy"], after=failed)
    assert (trace.result, ran(trace)) == ("SUCCESS", {"Approve": None, "Deploy": "kubectl"}), trace.log
    # Jenkins restarts the outer stages alone: no deployment without its approval.
    assert {stage.path for stage in trace.stages("Approve") + trace.stages("Deploy")} == {
        ("Deployment", "Approve"),
        ("Deployment", "Deploy"),
    }
    assert f"/{it.child.name}@{digest}" in it.deployed()
    assert "preserveStashes(" in (it.child / "Jenkinsfile").read_text()


def test_waiting_is_not_counted_and_an_approval_holds_no_build_back() -> None:
    """The limit of the smoke test starts with its GPU; a build that waits for a person lets the next one run."""
    for file in (ROOT / "Jenkinsfile", ROOT / "templates" / "shared" / "Jenkinsfile"):
        text = re.sub(r"\{%.*?%\}\n| // .*", "", file.read_text())
        locks = text.count('lock(label: "gpu-')
        assert locks == len(re.findall(r'lock\(label: "gpu-[^\n]*\{\s*timeout\(', text)) > 0, file
        assert not re.search(r"(?m)^    options \{[^}]*timeout\(", text), f"{file}: a limit of the whole build"
    assert "disableConcurrentBuilds" not in (ROOT / "templates" / "shared" / "Jenkinsfile").read_text()


def test_every_command_of_a_pipeline_has_a_limit() -> None:
    """A registry that takes a connection and never answers would hold an agent for ever."""
    for file in (
        ROOT / "Jenkinsfile",
        ROOT / "hooks" / "fleet.Jenkinsfile",
        ROOT / "templates" / "shared" / "Jenkinsfile",
    ):
        text, limits = file.read_text(), [False]
        for found in re.finditer(r"(timeout\([^()]*\) )?\{|\}|\boptions \{ timeout\(.*\}|\bsh '([^']*)'", text):
            if found[0].startswith("options"):
                limits[-1] = True
            elif found[2] is not None:
                assert limits[-1], f"{file}: {found[2]}"
            elif found[0] == "}":
                limits.pop()
            else:
                limits.append(limits[-1] or found[1] is not None)


@pytest.mark.slow
def test_other_agents_are_named_by_the_environment_of_every_build(builds: Callable[..., Builds]) -> None:
    """A push starts a build that nobody gives a parameter: labels come from the folder or from Jenkins itself."""
    it = builds("batch")
    for label in ("docker", "gpu"):
        it.agents.labels[f"our-{label}"] = it.agents.labels.pop(label)
    told = farm.environment(it.index, CPU_LABEL="our-docker", GPU_LABEL="our-gpu")
    trace = it.run(tag="v0.1.0", env=told, only=["Build and push", "GPU smoke test"])
    assert ran(trace) == {"Build and push": "our-docker", "GPU smoke test": "our-gpu"}, trace.log
