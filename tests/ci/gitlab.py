"""Run the .gitlab-ci.yml of a repository with `gitlab-ci-local`: its jobs, rules, needs and artifacts.

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

from tests.ci import farm
from tests.ci.runs import BRANCH, NAMES, NUMBERS, OWNER, TAG, Pipeline, Run, agents_of_jobs, ended, environment
from tests.conftest import git

NPM = Path(__file__).parent / "npm"
KEYWORDS = ("stages", "workflow", "variables", "default")


def run(
    source: Path,
    agents: farm.Agents,
    credentials: Mapping[str, Any],
    kind: str,
    pipeline: Pipeline,
    *,
    tools: Path,
    variables: Mapping[str, str] | None = None,
    tag: str = TAG,
    row: str = "",
    approve: bool = True,
) -> Run:
    """Run the pipeline of a repository for a build of this kind.

    tools: the folder in which npm has installed the runner. row: the one row whose jobs stay in the file. approve: a
    person starts the manual jobs.
    """
    folder = agents.folder / f"gitlab-{next(NUMBERS)}"
    work = folder / source.name
    shutil.copytree(source, work)
    if row:
        file = work / ".gitlab-ci.yml"
        file.write_text(re.sub(rf"(?m)^(build|smoke|promote) (?!{row}:).*\n", "", file.read_text()))
    if git(work, "remote").strip():
        git(work, "remote", "remove", "origin")
    git(work, "remote", "add", "origin", f"git@gitlab.com:{OWNER}/{source.name}.git")
    known: dict[str, Any] = {} if kind == "fork" else _scoped(credentials) | dict(variables or {})
    file = folder / "variables.yml"
    file.write_text(json.dumps(known))
    script = tools / "node_modules" / "gitlab-ci-local" / "dist" / "index.js"
    command = [str(Path(sys.executable).parent / "node"), str(script), "--shell-isolation", "--no-artifacts-to-source"]
    command += ["--variables-file", str(file), *_kind(kind, source.name, tag)]
    told = yaml.safe_load((work / ".gitlab-ci.yml").read_text())
    jobs = {name: job for name, job in told.items() if name not in KEYWORDS and not name.startswith(".")}
    manual = [name for name, job in jobs.items() if "manual" in str(job.get("rules"))]
    command += [word for name in manual if approve for word in ("--manual", name)]
    labels = {}
    for name, job in jobs.items():
        [label] = (told.get(job.get("extends"), {}) | job).get("tags", told["default"]["tags"])
        labels[name] = told["variables"][label.removeprefix("$")]
    around = environment(folder, agents_of_jobs(labels, agents, folder / "agents.sh"))
    done = subprocess.run(command, cwd=work, env=around, capture_output=True, text=True, check=False)
    log = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    passed, failed = (re.findall(rf"(?m)^\s*{word}\s+(\S+(?: \S+)*)", log) for word in ("PASS", "FAIL"))
    return ended(passed, failed, done.returncode, log)


def _scoped(credentials: Mapping[str, Any]) -> dict[str, dict[str, dict[str, str]]]:
    """Return the variables with the credentials, each for the environments that have it."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for name, credential in credentials.items():
        prefix, places = NAMES[name]
        parts = {prefix: str(credential)}
        if isinstance(credential, tuple):
            parts = {f"{prefix}_USER": credential[0], f"{prefix}_PASSWORD": credential[1]}
        for variable, value in parts.items():
            found.setdefault(variable, {"values": {}})["values"] |= dict.fromkeys(places, value)
    return found


def _kind(kind: str, name: str, tag: str) -> list[str]:
    given = {"CI_PIPELINE_ID": str(next(NUMBERS)), "CI_PROJECT_URL": f"https://gitlab.com/{OWNER}/{name}"}
    if kind == "tag":
        given |= {"CI_COMMIT_TAG": tag, "CI_COMMIT_REF_NAME": tag}
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
