"""What runs and what is released, by kind of build, on the three systems.

A runner may end with 0 where a job never ran, so what reached registry, index and cluster is asked too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.ci import farm
from tests.ci.children import Builds, commit, quick_checks
from tests.ci.runs import KINDS, SYSTEMS, TAG, Run
from tests.conftest import ROOT, git

TYPES = ("batch", "library")  # a service has the pipeline of a batch job (below)
JOBS = {"library": {"check", "package", "smoke"}, "batch": {"check", "build", "smoke"}}
RELEASE = {("library", "tag"): {"publish"}, ("batch", "main"): {"promote", "deploy"}, ("batch", "tag"): {"promote"}}
WHOLE = [("batch", "main"), ("library", "tag")]  # with real lint and tests
FEW = [("batch", "change", "jenkins"), ("library", "branch", "jenkins"), ("batch", "branch", "gitlab")]
FEW += [("batch", "queue", "github"), ("library", "change", "github"), ("batch", "tag", "gitlab")]


def is_in_ci(project_type: str, kind: str, system: str) -> bool:
    """Tell whether CI runs a cell; a release runs all."""
    return (project_type, kind) in WHOLE or (project_type, kind, system) in FEW


EVERY = [*itertools.product(TYPES, KINDS, SYSTEMS), ("batch", "queue", "github")]  # a merge queue
CELLS = [pytest.param(*one, marks=pytest.mark.slow if is_in_ci(*one) else pytest.mark.release) for one in EVERY]


@pytest.mark.parametrize(("project_type", "kind", "system"), CELLS)
def test_what_runs_and_what_is_released(
    builds: Callable[..., Builds], run: Callable[..., Run], project_type: str, kind: str, system: str
) -> None:
    """Every build checks everything; main and a tag release the digest that was smoked; a fork gets nothing."""
    it = builds(project_type)
    if (project_type, kind) not in WHOLE:
        quick_checks(it.child)
        commit(it.child, "Quick checks")
    told = it.run(run, kind)
    assert (told.code, told.failed) == (0, frozenset()), told.log
    expected = JOBS[project_type] | RELEASE.get((project_type, kind), set())
    assert told.passed == expected - ({"build", "smoke"} if kind == "fork" else set()), told.log
    assert kind != "fork" or "request of a fork" in told.log, told.log
    assert not any(secret in told.log for secret in farm.SECRETS)
    if project_type == "library":
        files = {f"{it.child.name.replace('-', '_')}-0.1.0{end}" for end in ("-py3-none-any.whl", ".tar.gz")}
        assert it.published() == (files if kind == "tag" else set())
        return
    digests = set(it.staged().values())
    assert len(digests) == (0 if kind == "fork" else 1), it.staged()
    tag = {"main": "main", "tag": TAG}.get(kind)
    assert it.released() == (dict.fromkeys([tag], *digests) if tag else {})
    assert bool(it.deployed()) == (kind == "main"), it.deployed()
    for digest in digests:
        assert f"@{digest}" in told.log, "the smoke test did not take the image by its digest"
        assert kind != "main" or f"/{it.child.name}@{digest}" in it.deployed()


@pytest.mark.slow
def test_a_late_build_of_an_older_commit_moves_nothing(
    builds: Callable[..., Builds], run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its promotion fails, so that it is not deployed either."""
    it = builds("batch")
    quick_checks(it.child)
    commit(it.child, "Older")
    next(it.child.glob("src/*/model.py")).with_name("note.py").write_text('"""Newer."""\n')
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2030-01-01T00:00:00Z")
    commit(it.child, "Newer")
    assert not it.run(run, "main").failed
    before = it.released(), it.deployed()
    assert all(before)
    git(it.child, "reset", "--quiet", "--hard", "HEAD~1")
    told = it.run(run, "main")
    assert "promote" in told.failed, told.log
    assert "is of a newer commit already" in told.log
    assert (it.released(), it.deployed()) == before


@pytest.mark.slow
@pytest.mark.parametrize("file", ["Jenkinsfile", ".github/workflows/ci.yml", ".gitlab-ci.yml"])
def test_a_service_has_the_pipeline_of_a_batch_job(render: Callable[[AnswerSet], Path], file: str) -> None:
    """But for the overlay that is deployed. None depends on the framework."""
    service, batch = (
        (render(AnswerSet(name, "plain", ci=SYSTEMS)) / file).read_text() for name in ("service", "batch")
    )
    assert service.replace("'prod'", "'cron'").replace("OVERLAY: prod", "OVERLAY: cron") == batch
    sources = [ROOT / "templates" / "shared" / "Jenkinsfile", *(ROOT / "templates" / "shared" / "ci").iterdir()]
    assert not [source.name for source in sources if "framework" in source.read_text()]
