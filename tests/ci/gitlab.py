"""Run a child's .gitlab-ci.yml with `gitlab-ci-local` on this machine: its jobs, rules, needs and artifacts.

It knows nothing of what GitLab itself guards (docs/ci.md). So a fork's run gets no variable, and tests ask what reached
the registry.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.ci.runs import BRANCH, NUMBERS, OWNER, TAG, Run, agents_of_jobs, environment
from tests.conftest import git
from tests.jenkins.pipelines import farm
from tests.jenkins.pipelines.children import Builds

NPM = Path(__file__).parent / "npm"
FILE = ".gitlab-ci.yml"
KEYWORDS = ("stages", "workflow", "variables", "default")


def run(it: Builds, kind: str, *, tools: Path, deploy: bool = True) -> Run:
    """Run a child's pipeline of a build of this kind (KINDS); `deploy`: a person starts the deployment."""
    cluster = it.agents.folder / "cluster"
    cluster.write_text("cluster: test\n")
    more = {
        "PACKAGE_INDEX_URL": f"{it.index.url}/",
        "PACKAGE_INDEX_USER": {"values": {"release": farm.INDEX_LOGIN[0]}},
        "PACKAGE_INDEX_PASSWORD": {"values": {"release": farm.INDEX_LOGIN[1]}},
        "KUBECONFIG": {"values": {"production": str(cluster)}},
    }
    options = ("--manual", "deploy") if deploy else ()
    return pipeline(it.child, it.agents, it.credentials, kind, tools, more, options)


def pipeline(
    source: Path,
    agents: farm.Agents,
    credentials: Mapping[str, Any],
    kind: str,
    tools: Path,
    variables: Mapping[str, Any],
    options: tuple[str, ...] = (),
    more: Mapping[str, str] | None = None,
) -> Run:
    """Run the pipeline of a repository; a fork's runs without the project's variables.

    tools: the folder in which npm has installed the runner. more: the environment of each job.
    """
    folder = agents.folder / f"gitlab-{next(NUMBERS)}"
    work = folder / source.name
    shutil.copytree(source, work)
    if git(work, "remote").strip():
        git(work, "remote", "remove", "origin")
    git(work, "remote", "add", "origin", f"git@gitlab.com:{OWNER}/{source.name}.git")
    scoped = {"staging": farm.STAGING_LOGIN, "release": credentials["registry-release"]}
    logins = {
        "REGISTRY_USER": {"values": {name: login[0] for name, login in scoped.items()}},
        "REGISTRY_PASSWORD": {"values": {name: login[1] for name, login in scoped.items()}},
    }
    file = folder / "variables.yml"
    file.write_text(json.dumps({} if kind == "fork" else logins | dict(variables)))
    script = tools / "node_modules" / "gitlab-ci-local" / "dist" / "index.js"
    command = [str(Path(sys.executable).parent / "node"), str(script), "--shell-isolation", "--no-artifacts-to-source"]
    command += ["--variables-file", str(file), *options, *_kind(kind, source.name)]
    first = agents_of_jobs(_places(source), agents, ("", ""), folder / "agents.sh")
    around = environment(folder, []) | {"BASH_ENV": str(first), **(more or {})}
    done = subprocess.run(command, cwd=work, env=around, capture_output=True, text=True, check=False)
    return _told(done.returncode, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr))


def _kind(kind: str, name: str) -> list[str]:
    given = {"CI_PIPELINE_ID": str(next(NUMBERS))}
    if kind == "tag":
        given |= {"CI_COMMIT_TAG": TAG, "CI_COMMIT_REF_NAME": TAG}
    if kind in ("change", "fork"):
        there = f"{'stranger' if kind == 'fork' else OWNER}/{name}"
        given |= {"CI_PIPELINE_SOURCE": "merge_request_event", "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": there}
        given |= {"CI_MERGE_REQUEST_PROJECT_PATH": f"{OWNER}/{name}", "CI_COMMIT_REF_NAME": BRANCH}
    if kind == "branch":
        given |= {"CI_COMMIT_BRANCH": BRANCH, "CI_COMMIT_REF_NAME": BRANCH}
    if kind == "schedule":
        given |= {"CI_PIPELINE_SOURCE": "schedule"}
    unset = [] if kind in ("main", "branch", "schedule") else ["--unset-variable", "CI_COMMIT_BRANCH"]
    return unset + [word for key, value in given.items() for word in ("--variable", f"{key}={value}")]


def _places(source: Path) -> dict[str, tuple[str, str]]:
    """Return the label of each job's runner, from the tags of the file."""
    told = yaml.safe_load((source / FILE).read_text())
    places = {}
    for name, job in told.items():
        if name not in KEYWORDS and not name.startswith("."):
            [tag] = (told.get(job.get("extends"), {}) | job).get("tags", told["default"]["tags"])
            places[name] = (told["variables"][tag.removeprefix("$")], "")
    return places


def _told(code: int, log: str) -> Run:
    passed = set(re.findall(r"(?m)^\s*PASS\s+(\S+(?: \S+)*)", log))
    failed = set(re.findall(r"(?m)^\s*FAIL\s+(\S+(?: \S+)*)", log))
    return Run(frozenset(passed - failed), frozenset(failed), code, log)
