"""The pipeline of this repository, executed: each row of the catalogue on its own, promoted by digest or not at all.

farm.py says what is real here and what stands in; base images are small stand-ins with a list of Debian packages,
pushed, listed (by syft) and tagged for real by the image tools.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.answers import TYPES
from tests.conftest import ROOT, git
from tests.jenkins.pipelines import farm
from tests.jenkins.pipelines.conftest import commit
from tests.jenkins.pipelines.parent import FEW, LABELS, PASSED, ROWS, STAGES, Parent, on_a_farm, results
from tests.jenkins.pipelines.parent_faults import FAULTS
from tests.jenkins.runner import Trace, check
from tests.shared import once

UNREAD = ("benchmarks", "docs", "tests", "tools", "templates/locks", *(f"templates/{kind}" for kind in TYPES))


def test_jenkins_would_read_both() -> None:
    """The static check finds nothing in the pipelines of this repository."""
    assert check(ROOT / "Jenkinsfile", ROOT / "hooks" / "fleet.Jenkinsfile") == []


@pytest.fixture(scope="module")
def images_alone(template: Path, shared: Path) -> Path:
    """Return this repository with what the steps of its pipeline read: each agent checks everything out."""

    def make(target: Path) -> None:
        shutil.copytree(template, target, ignore=shutil.ignore_patterns(".git"))
        for name in UNREAD:
            shutil.rmtree(target / name)
        git(target, "init", "--quiet", "--initial-branch=main")
        commit(target, "The images")

    return once(shared / "images-alone", make)


@pytest.fixture
def parent(images_alone: Path, registry: farm.Registry, tmp_path: Path) -> Parent:
    """A repository in which nothing has run yet."""
    return on_a_farm(images_alone, registry, tmp_path, tmp_path.name.replace("_", "-").lower())


@pytest.fixture(scope="module")
def checked(
    images_alone: Path, registry: farm.Registry, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Parent, Trace]:
    """A repository, and its build of a branch: what a promotion starts from."""
    first = on_a_farm(images_alone, registry, tmp_path_factory.mktemp("parent"), "checked")
    return first, first.run(FEW[:1], branch="feature")


@pytest.fixture
def after(checked: tuple[Parent, Trace], tmp_path: Path) -> tuple[Parent, Trace]:
    """A copy of the checked repository on agents of its own, and the build that checked it."""
    return on_a_farm(checked[0].source, checked[0].registry, tmp_path, checked[0].path), checked[1]


def promoted(parent: Parent, trace: Trace, row: str) -> None:
    """Assert that a row went from staging over the GPU agent to its release tags, and that its record is kept."""
    assert results(trace, row) == PASSED, trace.log
    assert {name: trace.stage(name, ROW=row).label for name in LABELS} == LABELS, row
    assert trace.stage("GPU smoke test", ROW=row).locks, row
    [digest] = parent.released(row)
    assert parent.staged(row) == {digest}, row
    record = json.loads((trace.archive / "build" / "released" / row / "released.json").read_text())[row]
    require = "gpu" if row.startswith("plain") else "framework"
    assert (record["digest"], record["smoke"]["require"], record["smoke"]["on_a_gpu"]) == (digest, require, True)
    assert not any(login[1] in trace.log for login in (farm.STAGING_LOGIN, farm.RELEASE_LOGIN))


@pytest.mark.release
def test_main_promotes_each_digest_that_was_smoked(parent: Parent) -> None:
    trace = parent.run(ROWS, branch="main")
    assert trace.result == "SUCCESS", trace.log
    for row in ROWS:
        promoted(parent, trace, row)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [{"branch": "feature"}, {"change": "7"}, {"tag": "v0.1.0"}], ids=["branch", "pull request", "tag"]
)
def test_only_main_promotes(after: tuple[Parent, Trace], kind: dict[str, str]) -> None:
    """The same checks, by digest on the GPU agent; no release tag."""
    parent, good = after
    assert good.result == "SUCCESS", good.log
    assert results(good, FEW[0]) == {name: "SUCCESS" for name in LABELS if name != "Promote"}
    trace = parent.run(FEW[:1], **kind, only=["Promote"], after=good)
    assert (trace.result, trace.stage("Promote").skipped) == ("SUCCESS", "when"), trace.log
    assert (len(parent.staged(FEW[0])), parent.released(FEW[0])) == (1, set())


@pytest.mark.slow
def test_a_fork_gets_no_push_no_gpu_and_no_credential(parent: Parent) -> None:
    """Its pull request is checked and tested, and says what it does not get."""
    trace = parent.run(FEW[:1], change="7", env={"CHANGE_FORK": "stranger"})
    assert trace.result == "SUCCESS", trace.log
    assert [stage.name for stage in trace.all_stages if stage.ran] == ["From a fork", "Check", "Template tests"]
    assert "A pull request of stranger: checked and tested; no push, no GPU and no credential" in trace.log
    assert not [event for event in trace.events if event.step == "credentials" or event.label == "gpu"]
    assert (parent.staged(FEW[0]), parent.released(FEW[0])) == (set(), set())


@pytest.mark.slow
def test_each_credential_can_do_its_own_part_only(after: tuple[Parent, Trace]) -> None:
    """The one of staging releases nothing, and the registry says so."""
    parent, good = after
    parent.credentials["registry-release"] = farm.STAGING_LOGIN
    trace = parent.run(FEW[:1], branch="main", only=["Promote"], after=good)
    assert results(trace, FEW[0])["Promote"] == "FAILURE", trace.log
    assert (len(parent.staged(FEW[0])), parent.released(FEW[0])) == (1, set())
    assert "denied" in trace.log


@pytest.mark.slow
def test_main_promotes_the_digest_that_was_smoked_and_a_row_that_fails_holds_back_only_itself(parent: Parent) -> None:
    """One row does not build: the build is red, and the other row is promoted."""
    (parent.label("docker") / f"broken-{FEW[1]}").touch()
    trace = parent.run(FEW, branch="main")
    assert trace.result == "FAILURE"
    assert results(trace, FEW[1]) == {"Build and push": "FAILURE"}
    assert parent.released(FEW[1]) == set()
    promoted(parent, trace, FEW[0])


@pytest.mark.slow
def test_the_templates_tests_hold_back_every_row(parent: Parent) -> None:
    (parent.label("docker") / "tests-fail").touch()
    trace = parent.run(FEW[:1], branch="main")
    assert (trace.result, trace.stage("Template tests").result) == ("FAILURE", "FAILURE")
    assert (parent.staged(FEW[0]), parent.released(FEW[0])) == (set(), set())


@pytest.mark.slow
def test_a_foreign_image_under_the_staging_tag_is_replaced(parent: Parent) -> None:
    """What stands under the tag of a content is looked at: the right image takes its place, and its digest goes on."""
    first, second = FEW
    parent.run(FEW, branch="feature", only=["Build and push"])
    home = f"{parent.path}-staging"
    [(name, right)] = parent.registry.tags(f"{home}/{second}").items()
    [foreign] = parent.registry.tags(f"{home}/{first}").values()
    parent.registry.copy(f"{home}/{first}", foreign, f"{home}/{second}", name)
    assert parent.registry.tags(f"{home}/{second}") == {name: foreign}
    trace = parent.run([second], branch="main", only=["Build and push"])
    assert trace.result == "SUCCESS", trace.log
    assert f"holds another image ({foreign})" in trace.log
    assert parent.registry.tags(f"{home}/{second}") == {name: right}
    pushed = trace.workdir / "stash" / f"pushed-{second}" / "build" / "images" / "pushed" / f"{second}.json"
    assert json.loads(pushed.read_text())["image"].endswith(f"/{second}@{right}")


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_promotes_nothing(after: tuple[Parent, Trace], fault: str) -> None:
    """The right stage fails and says why; the registry holds no release."""
    (parent, good), (arrange, first, stage, words) = after, FAULTS[fault]
    options = arrange(parent)
    only = STAGES[STAGES.index(first) :]
    try:
        trace = parent.run(
            FEW[:1], branch="main", only=only, after=good, **(options if isinstance(options, dict) else {})
        )
    finally:
        if fault == "registry is down":
            parent.registry.start()
    result = "ABORTED" if "hangs" in fault else "FAILURE"
    assert trace.result == result, trace.log
    assert results(trace, FEW[0])[stage] == result, trace.log
    assert words in trace.log
    assert parent.released(FEW[0]) == set()


@pytest.mark.slow
def test_the_nightly_build_promotes_only_other_packages(parent: Parent) -> None:
    """Each night is compared with what was promoted last, whether or not its record was committed here."""
    row, docker = FEW[1], parent.label("docker")
    nights = [  # tests/images has the other cases, older packages among them
        ("3.5.1-1", "recorded in"),
        ("3.5.1-1", "the packages are those of what was promoted last"),
    ]
    for night, (version, words) in enumerate(nights):
        shutil.rmtree(docker / "images")
        (docker / "images").mkdir()
        (docker / "openssl").write_text(version)
        (parent.source / "base-images" / row / "requirements.in").open("a").write("# another comment\n")
        before = parent.released(row)
        trace = parent.run([row], branch="main", timer=True, only=STAGES)
        assert trace.result == "SUCCESS", trace.log
        assert (parent.released(row) > before) == (words == "recorded in"), f"night {night}: {trace.log}"
        assert words in trace.log
