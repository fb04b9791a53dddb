"""Run a child's .gitlab-ci.yml with `gitlab-ci-local` on this machine: its jobs, rules, needs and artifacts.

It knows nothing of what GitLab itself guards (README.md). So a fork's run gets no variable, and tests ask what reached
the registry.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.ci.runs import NUMBERS, OWNER, TAG, Run, agents_of_jobs, environment
from tests.conftest import git
from tests.jenkins.pipelines import farm
from tests.jenkins.pipelines.children import Builds

NPM = Path(__file__).parent / "npm"
FILE = ".gitlab-ci.yml"
KEYWORDS = ("stages", "workflow", "variables", "default")


def run(it: Builds, kind: str, *, tools: Path, deploy: bool = True, changed: bool = False) -> Run:
    """Run the pipeline of main, a merge request, a tag, or a merge request of a fork; `deploy`: a person starts it.

    tools: the folder in which npm has installed the runner. changed: take what is not committed too.
    """
    folder = it.agents.folder / f"gitlab-{next(NUMBERS)}"
    work = folder / it.child.name
    shutil.copytree(it.child, work)
    if git(work, "remote").strip():
        git(work, "remote", "remove", "origin")
    git(work, "remote", "add", "origin", f"git@gitlab.com:{OWNER}/{it.child.name}.git")
    script = tools / "node_modules" / "gitlab-ci-local" / "dist" / "index.js"
    command = [str(Path(sys.executable).parent / "node"), str(script), "--shell-isolation", "--no-artifacts-to-source"]
    command += ["--variables-file", str(_variables(it, kind, folder))]
    command += ["--manual", "deploy"] if deploy else []
    command += _kind(kind, it.child.name)
    around = environment(folder, []) | {"BASH_ENV": str(_agents(it, folder))}
    done = subprocess.run(command, cwd=work, env=around, capture_output=True, text=True, check=False)
    return _told(done.returncode, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr))


def _kind(kind: str, name: str) -> list[str]:
    given = {"CI_PIPELINE_ID": str(next(NUMBERS))}
    if kind == "tag":
        given |= {"CI_COMMIT_TAG": TAG, "CI_COMMIT_REF_NAME": TAG}
    if kind in ("change", "fork"):
        there = f"{'stranger' if kind == 'fork' else OWNER}/{name}"
        given |= {"CI_PIPELINE_SOURCE": "merge_request_event", "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": there}
        given |= {"CI_MERGE_REQUEST_PROJECT_PATH": f"{OWNER}/{name}", "CI_COMMIT_REF_NAME": "feature/it's"}
    unset = [] if kind == "main" else ["--unset-variable", "CI_COMMIT_BRANCH"]
    return unset + [word for key, value in given.items() for word in ("--variable", f"{key}={value}")]


def _variables(it: Builds, kind: str, folder: Path) -> Path:
    """Write the project's variables, each for its environment; a fork's pipeline runs without them."""
    cluster = folder / "kubeconfig"
    cluster.write_text("cluster: test\n")
    scoped = {"staging": farm.STAGING_LOGIN, "release": farm.RELEASE_LOGIN}
    given: dict[str, Any] = {
        "REGISTRY_USER": {"values": {name: login[0] for name, login in scoped.items()}},
        "REGISTRY_PASSWORD": {"values": {name: login[1] for name, login in scoped.items()}},
        "PACKAGE_INDEX_URL": f"{it.index.url}/",
        "PACKAGE_INDEX_USER": {"values": {"release": farm.INDEX_LOGIN[0]}},
        "PACKAGE_INDEX_PASSWORD": {"values": {"release": farm.INDEX_LOGIN[1]}},
        "KUBECONFIG": {"values": {"production": str(cluster)}},
    }
    file = folder / "variables.yml"
    file.write_text(json.dumps({} if kind == "fork" else given))
    return file


def _agents(it: Builds, folder: Path) -> Path:
    told = yaml.safe_load((it.child / FILE).read_text())
    jobs = {}
    for name, job in told.items():
        if name in KEYWORDS or name.startswith("."):
            continue
        [tag] = job.get("tags", told["default"]["tags"])
        label = told["variables"][tag.removeprefix("$")]
        jobs[name] = (label, "")
    return agents_of_jobs(jobs, it.agents, folder / "agents.sh")


def _told(code: int, log: str) -> Run:
    passed = set(re.findall(r"(?m)^\s*PASS\s+(\S+)", log))
    failed = set(re.findall(r"(?m)^\s*FAIL\s+(\S+)", log))
    return Run(frozenset(passed - failed), frozenset(failed), code, log)
