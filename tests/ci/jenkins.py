"""Run a Jenkinsfile with the runner of tests/jenkins, told as runs of the other systems are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.ci import farm
from tests.ci.runs import BRANCH, NUMBERS, TAG, Pipeline, Run, ended
from tests.jenkins.runner import Trace, run_pipeline

JOBS = {  # the stages that the other systems call so
    "Lint": "check",
    "Test": "check",
    "Template tests": "check",
    "Package": "package",
    "Build and push": "build",
    "GPU smoke test": "smoke",
    "Promote": "promote",
    "Publish": "publish",
    "Deploy": "deploy",
    "Canaries": "canaries",
    "Others": "others",
    "Propose": "update",
}


def trace(
    source: Path,
    agents: farm.Agents,
    credentials: Mapping[str, Any],
    kind: str,
    pipeline: Pipeline,
    *,
    variables: Mapping[str, str] | None = None,
    tag: str = TAG,
    row: str = "",
    **options: Any,
) -> Trace:
    """Run a pipeline for a build of this kind. row: the one in the matrix. Other options: those of run_pipeline."""
    number = next(NUMBERS)
    file = agents.folder / f"Jenkinsfile-{number}"
    file.write_text((source / pipeline.jenkins).read_text())
    if row:
        file.write_text(re.sub(r"\bvalues\([^)]*\)", f"values('{row}')", file.read_text()))
    if (agents.labels.get("gpu", agents.folder) / "smoke-hangs").exists():
        options["timeouts"] = {"GPU smoke test": 3}
    change = {"BRANCH_NAME": "PR-12", "CHANGE_ID": "12", "CHANGE_TARGET": "main"}
    kinds = {
        "branch": {"BRANCH_NAME": BRANCH},
        "tag": {"BRANCH_NAME": tag, "TAG_NAME": tag},
        "change": change,
        "fork": change | {"CHANGE_FORK": "stranger"},
    }
    return run_pipeline(
        file,
        source,
        timer=kind == "schedule",
        labels=agents.labels,
        credentials=credentials,
        env={**kinds.get(kind, {}), **(variables or {})},
        workdir=agents.folder / f"work-{number}",
        **options,
    )


def run(*arguments: Any, **options: Any) -> Run:
    """Run a pipeline as the other systems do."""
    done = trace(*arguments, **options)
    results = [(JOBS[stage.name], stage.result) for stage in done.stages if stage.ran and stage.name in JOBS]
    failed = [job for job, result in results if result != "SUCCESS"]
    return ended([job for job, _ in results], failed, int(done.result != "SUCCESS"), done.log)
