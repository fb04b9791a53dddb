"""This repository's own pipelines on GitHub and GitLab: the digest that was smoked is promoted, or none."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.ci import github, gitlab
from tests.ci.runs import Run
from tests.conftest import ROOT, git
from tests.jenkins.pipelines import farm
from tests.jenkins.pipelines.conftest import commit
from tests.jenkins.pipelines.parent import ROWS, Parent, on_a_farm
from tests.templates.checks import workflow_error

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ROW = "plain-cu12"


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_github_would_read_it(file: Path) -> None:
    text = file.read_text()
    assert not workflow_error(text), workflow_error(text)
    loose = [one for one in re.findall(r"uses: (?:&\w+ )?(actions/.+)", text) if not github.PINNED.fullmatch(one)]
    assert not loose, f"{file.name}: not pinned by commit with the version beside it: {loose}"


def test_every_live_row_is_built() -> None:
    images = yaml.safe_load((ROOT / ".github" / "workflows" / "images.yml").read_text())
    assert images["jobs"]["image"]["strategy"]["matrix"]["row"] == ROWS
    jobs = yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())
    for step in ("build", "smoke", "promote"):
        assert [name for name in jobs if name.startswith(f"{step} ")] == [f"{step} {row}" for row in ROWS]
    assert {job["variables"]["ROW"] for name, job in jobs.items() if name.startswith("promote ")} == set(ROWS)


@pytest.fixture
def parent(template: Path, registry: farm.Registry, tmp_path: Path) -> Parent:
    """A copy of this repository on a farm of its own."""
    return on_a_farm(template, registry, tmp_path, tmp_path.name.replace("_", "-").lower())


@pytest.fixture
def run(system: str, parent: Parent, request: pytest.FixtureRequest) -> Callable[[str], Run]:
    """Return what runs a build of a kind, of one row."""
    place = f"{parent.registry.host}/{parent.path}"
    more = {"STANDIN_MAKE": shutil.which("make") or "make", "STANDIN_PYTHON": sys.executable}
    if system == "github":
        files = [f".github/workflows/{name}.yml" for name in ("images", "image")]
        secrets = {"REGISTRY_PASSWORD": farm.STAGING_LOGIN[1]}
        given = {"REGISTRY": place, "REGISTRY_USER": farm.STAGING_LOGIN[0]}
        doing = partial(
            github.act, workflows=files, variables=given, secrets=secrets, options=("--matrix", f"row:{ROW}")
        )
    else:
        file = parent.source / ".gitlab-ci.yml"
        others = "|".join(row for row in ROWS if row != ROW)
        file.write_text(re.sub(rf"(?m)^\w+ ({others}): .*\n", "", file.read_text()))
        commit(parent.source, "One row")
        tools = request.getfixturevalue("gitlab_tools")
        doing = partial(gitlab.pipeline, tools=tools, variables={"REGISTRY": place})
    return lambda kind: doing(parent.source, parent.agents, parent.credentials, kind, more=more)


@pytest.mark.slow
def test_main_promotes_the_digest_that_was_smoked(parent: Parent, system: str, run: Callable[[str], Run]) -> None:
    told = run("main")
    assert (told.failed, told.code) == (frozenset(), 0), told.log
    [digest] = parent.staged(ROW)
    assert parent.released(ROW) == {digest}, told.log
    assert git(parent.source, "status", "--porcelain") == ""


def gpu_agent(name: str, text: str = "") -> Callable[[Parent], object]:
    """Put a file beside the engine and the `make` of the GPU agent, which breaks one of them (standins/)."""
    return lambda parent: (parent.label("gpu") / name).write_text(text)


def without_gpu(parent: Parent) -> None:
    (parent.label("gpu") / "nvidiactl").unlink()


def release_is_busy(parent: Parent) -> None:
    parent.registry.fails("PUT", f"{parent.path}/{ROW}/manifests/", 503, times=99)


def release_with_the_login_of_staging(parent: Parent) -> None:
    parent.credentials["registry-release"] = farm.STAGING_LOGIN


FOREIGN = """sed -i 's/"commit": "..../"commit": "beef/' build/images/smoke/*.json\n"""
FAULTS: dict[str, tuple[str, Callable[[Parent], object], str]] = {  # kind of build, what goes wrong, words
    "smoke test fails": ("main", gpu_agent("smoke-fails"), "GPU and CPU differ"),
    "smoke test skips": ("main", gpu_agent("smoke-skips"), "every layer of the smoke test was skipped"),
    "smoke test is silent": ("main", gpu_agent("smoke-silent"), "the smoke report is empty"),
    "smoke test is killed": ("main", gpu_agent("smoke-digest-killed"), "illed"),
    "report is missing": ("main", gpu_agent("smoke-digest-does-nothing"), "build/images/smoke"),
    "report of another commit": ("main", gpu_agent("smoke-digest-then", FOREIGN), "about the commit beef"),
    "no GPU on the GPU runner": ("main", without_gpu, "no tag was set"),
    "promotion answers 503": ("main", release_is_busy, "503"),
    "login of staging alone": ("main", release_with_the_login_of_staging, "denied"),
    "pull request": ("change", lambda _: None, ""),
    "fork": ("fork", lambda _: None, "request of a fork"),
}


@pytest.mark.release
@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_promoted(parent: Parent, run: Callable[[str], Run], fault: str) -> None:
    kind, arrange, words = FAULTS[fault]
    arrange(parent)
    try:
        told = run(kind)
    finally:
        parent.registry.keeper.faults.clear()
    assert words in told.log, told.log
    assert "promote" not in {name.split()[0] for name in told.passed}, told.log
    assert parent.released(ROW) == set(), told.log
    assert len(parent.staged(ROW)) == (0 if kind == "fork" else 1), told.log
