"""What runs of both systems have in common: the kinds of builds, the agents of the jobs, what a run tells."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.jenkins.pipelines import farm

KINDS = ("main", "branch", "change", "tag", "fork")
BRANCH = "feature/it's-$(id)"
OWNER = "acme"
TAG = "v0.1.0"
NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Run:
    """One run: the jobs that passed, those that failed, and what all of them said."""

    passed: frozenset[str]
    failed: frozenset[str]
    code: int
    log: str


def environment(folder: Path, path: list[Path]) -> dict[str, str]:
    """Return what a job finds: nothing of the tests' own environment but what concerns packages and addresses."""
    kept = re.compile(r"(?i)^(path|lang|(lc|mypy|pip|uv|ssl_cert)_.*|(https?|no|all)_proxy|requests_ca_bundle)$")
    outside = {name: value for name, value in os.environ.items() if kept.match(name)}
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    (home / ".gitconfig").write_text("[user]\n\tname = CI\n\temail = ci@example.com\n[safe]\n\tdirectory = *\n")
    return outside | {
        "REGISTRY_PAUSES": "0 0",
        "HOME": str(home),
        "PATH": os.pathsep.join([*map(str, path), outside["PATH"]]),
    }


def agents_of_jobs(
    jobs: Mapping[str, tuple[str, str]], agents: farm.Agents, release: tuple[str, str], file: Path
) -> Path:
    """Write what bash reads first: each job's agent comes first on PATH, and its environment's credentials win.

    jobs: the label and the environment of each job, as the file of the pipeline says. release: the login that the
    environment of that name has.
    """
    lines = ['job=${GITHUB_JOB:-${CI_JOB_NAME:-}} agent=""', "case $job in"]
    lines += [
        f"    {shlex.quote(job)}) agent={shlex.quote(str(agents.labels[label]))} ;;" for job, (label, _) in jobs.items()
    ]
    lines += ["esac", 'if [ "${AGENT:-}" != "$agent" ]; then export AGENT=$agent PATH="$agent:$PATH"; fi']
    user, password = map(shlex.quote, release)
    # A secret of the environment stands in for that of the repository, in the steps that ask for it.
    lines += [
        f'if [ "$job" = {shlex.quote(job)} ] && [ -n "${{REGISTRY_PASSWORD:-}}" ]; then\n'
        f"    REGISTRY_USER={user} REGISTRY_PASSWORD={password}\nfi"
        for job, (_, where) in jobs.items()
        if where == "release"
    ]
    file.write_text("\n".join(lines) + "\n")
    return file


def quick_checks(child: Path) -> None:
    """Let lint and test of a child say at once that all is good: for faults that are not about them."""
    head = "#!/usr/bin/env bash\nmkdir -p build/proof build/test-results\ngit rev-parse HEAD >build/proof/"
    report = '<testsuite><testcase name="quick"/></testsuite>'
    (child / "scripts" / "lint").write_text(f"{head}lint\n")
    (child / "scripts" / "test").write_text(
        f"{head}test\ntee build/proof/unit.xml >build/test-results/unit.xml <<<'{report}'\n"
    )
