"""Run a child's Jenkinsfile with the runner of tests/jenkins, told as runs of the other systems are."""

from __future__ import annotations

from typing import Any

from tests.ci.runs import BRANCH, TAG, Run
from tests.jenkins.pipelines import farm
from tests.jenkins.pipelines.children import Builds

KINDS: dict[str, dict[str, Any]] = {
    "main": {"branch": "main"},
    "branch": {"branch": BRANCH},
    "change": {"change": "12"},
    "tag": {"tag": TAG},
    "fork": {"change": "12"},
}
JOBS = {  # the stages that the other systems call so
    "Lint": "lint",
    "Test": "test",
    "Package": "package",
    "Build and push": "build",
    "GPU smoke test": "smoke",
    "Promote": "promote",
    "Publish": "publish",
    "Deploy": "deploy",
}


def run(it: Builds, kind: str) -> Run:
    """Run a child's pipeline of a build of this kind (KINDS); a person approves."""
    more = {"CHANGE_FORK": "stranger"} if kind == "fork" else {}
    limits = {"GPU smoke test": 3} if (it.agents.labels["gpu"] / "smoke-hangs").exists() else {}
    trace = it.run(**KINDS[kind], env=farm.environment(it.index, **more), timeouts=limits)
    ended = {JOBS.get(stage.name, stage.name): stage.result for stage in trace.all_stages if stage.ran}
    passed = frozenset(name for name, result in ended.items() if result == "SUCCESS")
    failed = frozenset(name for name, result in ended.items() if result in ("FAILURE", "ABORTED", "UNSTABLE"))
    return Run(passed, failed, int(trace.result != "SUCCESS"), trace.log)
