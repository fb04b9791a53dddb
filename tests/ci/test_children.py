"""What runs where and what is released, on GitHub and GitLab: the same as on Jenkins (tests/jenkins/pipelines)."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.answers import TYPES
from tests.ci.conftest import Runs
from tests.ci.runs import KINDS, TAG
from tests.jenkins.pipelines import farm
from tests.jenkins.pipelines.children import Builds

CI = ("github", "gitlab")
CHECKS = {"github": {"check"}, "gitlab": {"check"}}
TRUSTED = {"library": {"smoke"}, "batch": {"build", "smoke"}, "service": {"build", "smoke"}}
RELEASE = {
    ("library", "tag"): {"publish"},
    ("batch", "main"): {"promote", "deploy"},
    ("batch", "tag"): {"promote"},
    ("service", "main"): {"promote", "deploy"},
    ("service", "tag"): {"promote"},
}
IN_CI = [("batch", "main", "github"), ("library", "tag", "gitlab")]  # and faults
EVERY = [
    pytest.param(*one, marks=pytest.mark.slow if one in IN_CI else pytest.mark.release)
    for one in itertools.product(TYPES, KINDS, CI)
]
SECRETS = (farm.STAGING_LOGIN[1], farm.RELEASE_LOGIN[1], farm.INDEX_LOGIN[1])


@pytest.mark.parametrize(("project_type", "kind", "system"), EVERY)
def test_what_runs_and_what_is_released(
    builds: Callable[..., Builds], run: Runs, system: str, project_type: str, kind: str
) -> None:
    """Every build checks everything; main and a tag release the digest that was smoked; a fork gets nothing."""
    it = builds(project_type, ci=CI)
    told = run(it, kind)
    assert (told.code, told.failed) == (0, frozenset()), told.log
    expected = CHECKS[system] | ({"package"} if project_type == "library" else set())
    expected |= set() if kind == "fork" else TRUSTED[project_type]
    assert told.passed == expected | RELEASE.get((project_type, kind), set()), told.log
    assert kind != "fork" or "request of a fork" in told.log, told.log
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
