"""Odd builds on GitHub and GitLab: names that a shell could run, forks that are gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ci import github, gitlab
from tests.ci.conftest import Runs
from tests.ci.runs import quick_checks
from tests.jenkins.pipelines.children import Builds
from tests.jenkins.pipelines.conftest import commit

TAGS = ["v1.0$(touch${IFS}%s)", "v1`touch${IFS}%s`", "v1;touch${IFS}%s", "v1/2", "v1\u00e9"]


def quick(builds: Callable[..., Builds]) -> Builds:
    """Return a batch job whose lint and tests say at once that all is good."""
    it = builds("batch", ci=("github", "gitlab"))
    quick_checks(it.child)
    return it


@pytest.mark.parametrize(
    "tag", [pytest.param(tag, marks=pytest.mark.release if tag in TAGS[1:] else pytest.mark.slow) for tag in TAGS]
)
def test_a_tag_that_a_shell_could_run_is_a_name_and_no_release(
    builds: Callable[..., Builds], run: Runs, tag: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = tag % (tmp_path / "run") if "%s" in tag else tag
    monkeypatch.setattr(github, "TAG", name)
    monkeypatch.setattr(gitlab, "TAG", name)
    it = quick(builds)
    commit(it.child, "Quick checks")
    told = run(it, "tag")
    assert "promote" in told.failed, told.log
    assert "is not a tag" in told.log
    assert not (tmp_path / "run").exists()
    it.nothing_is_out()


@pytest.mark.slow
def test_a_pull_request_whose_fork_is_gone_is_that_of_a_fork(builds: Callable[..., Builds]) -> None:
    it = quick(builds)
    commit(it.child, "Quick checks")
    told = github.run(it, "gone")
    assert (told.passed, told.failed) == ({"check"}, frozenset()), told.log
    assert it.staged() == {}
    it.nothing_is_out()
