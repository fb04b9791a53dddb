"""Run a child's GitHub workflow with `act` on this machine: its jobs, their steps and their conditions.

act knows nothing of what GitHub itself guards (docs/ci.md). So the labels are mapped here, a fork's run gets no secret,
and tests ask what reached the registry.
"""

from __future__ import annotations

import json
import re
import shlex
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

BIN = Path(sys.executable).parent
PINNED = re.compile(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
WORKFLOW = ".github/workflows/ci.yml"
QUEUE = "refs/heads/gh-readonly-queue"
LABELS = {"ubuntu-latest": "docker", "docker": "docker", "gpu": "gpu", "deploy": "kubectl"}
NAMES = {
    "change": "pull_request",
    "fork": "pull_request",
    "gone": "pull_request",
    "dependabot": "pull_request",
    "queue": "merge_group",
    "schedule": "schedule",
}
WITHOUT_SECRETS = ("fork", "gone", "dependabot")
STANDIN = Path(__file__).parent / "standins" / "artifacts.py"
# On a busy machine act drops the last words of a step that fails: it does not wait until it has read them. So the
# outermost shell of each step writes them to a file as well.
TELL = """
if [ -z "${{TOLD:-}}" ]; then
    export TOLD={file}
    exec > >(exec tee -a "$TOLD") 2>&1
    telling=$!
    trap 'exec >/dev/null 2>&1; wait "$telling"' EXIT
fi
"""
INPUTS = ("name", "path", "if-no-files-found", "overwrite", "pattern", "merge-multiple")


def run(it: Builds, kind: str, *, labels: tuple[str, ...] = tuple(LABELS)) -> Run:
    """Run a child's workflow for a build of this kind (KINDS); `labels` are those that a runner has."""
    given = {"REGISTRY_USER": farm.STAGING_LOGIN[0], "PACKAGE_INDEX_URL": f"{it.index.url}/"}
    given["PACKAGE_INDEX_USER"] = farm.INDEX_LOGIN[0]
    secrets = {"REGISTRY_PASSWORD": farm.STAGING_LOGIN[1], "PACKAGE_INDEX_PASSWORD": farm.INDEX_LOGIN[1]}
    secrets["KUBECONFIG"] = "cluster: test"
    return act(it.child, it.agents, it.credentials, kind, [WORKFLOW], given, secrets, labels=labels)


def act(
    source: Path,
    agents: farm.Agents,
    credentials: Mapping[str, Any],
    kind: str,
    workflows: list[str],
    variables: dict[str, str],
    secrets: dict[str, str],
    *,
    labels: tuple[str, ...] = tuple(LABELS),
    options: tuple[str, ...] = (),
    more: Mapping[str, str] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> Run:
    """Run the first of the workflows, which may call the others, in a repository; `more` is each job's environment.

    inputs: what the person who starts it by hand gives; else it is started by a push or a pull request.
    """
    folder = agents.folder / f"act-{next(NUMBERS)}"
    folder.mkdir()
    if not git(source, "remote").strip():
        git(source, "remote", "add", "origin", f"https://github.com/{OWNER}/{source.name}.git")
    event = folder / "event.json"
    event.write_text(json.dumps(_event(kind, source.name) | ({} if inputs is None else {"inputs": inputs})))
    jobs = {name: job for file in workflows for name, job in _jobs(source / file).items() if "runs-on" in job}
    name = NAMES.get(kind, "push") if inputs is None else "workflow_dispatch"
    command = [str(BIN / "act"), name, "--eventpath", str(event)]
    command += ["--workflows", workflows[0], "--no-cache-server", "--action-cache-path", str(folder / "cache")]
    command += ["--json", *options]
    command += [word for label in labels for word in ("--platform", f"{label}=-self-hosted")]
    command += [word for stand in _actions(jobs, folder) for word in ("--local-repository", stand)]
    if kind not in WITHOUT_SECRETS:
        command += [word for key, value in secrets.items() for word in ("--secret", f"{key}={value}")]
    if kind not in ("fork", "gone"):  # as GitHub does, which gives a fork neither
        command += [word for key, value in variables.items() for word in ("--var", f"{key}={value}")]
    places = {name: (LABELS[_label(job["runs-on"])], job.get("environment", "")) for name, job in jobs.items()}
    first = agents_of_jobs(places, agents, credentials["registry-release"], folder / "agents.sh")
    said = folder / "said.log"
    said.touch()
    with first.open("a") as file:
        file.write(TELL.format(file=shlex.quote(str(said))))
    around = environment(folder, []) | {"BASH_ENV": str(first), **(more or {})}
    done = subprocess.run(command, cwd=source, env=around, capture_output=True, text=True, check=False)
    return _told(done.returncode, done.stdout + done.stderr + said.read_text(errors="replace"))


def _label(runs_on: str) -> str:
    [label] = re.findall(r"\|\| '([\w-]+)' \}\}", runs_on)
    return str(label)


def _event(kind: str, name: str) -> dict[str, Any]:
    if kind == "tag":
        return {"ref": f"refs/tags/{TAG}"}
    if kind == "queue":
        return {
            "action": "checks_requested",
            "merge_group": {"head_ref": f"{QUEUE}/main/pr-7", "base_ref": "refs/heads/main"},
        }
    if kind in ("main", "branch", "schedule"):
        return {"ref": f"refs/heads/{BRANCH if kind == 'branch' else 'main'}"}
    here, there = f"{OWNER}/{name}", f"stranger/{name}" if kind == "fork" else f"{OWNER}/{name}"
    # Of a fork that is gone, GitHub says nothing.
    head = {"ref": BRANCH, "repo": None if kind == "gone" else {"full_name": there}}
    request = {"number": 7, "head": head, "base": {"ref": "main", "repo": {"full_name": here}}}
    return {
        "number": 7,
        "pull_request": request | {"user": {"login": "dependabot[bot]" if kind == "dependabot" else "somebody"}},
    }


def _jobs(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(file.read_text())["jobs"]
    return found


def _actions(jobs: Mapping[str, Any], folder: Path) -> list[str]:
    """Make a stand-in for every action that the workflow uses, at the very commit that it names."""
    made = []
    uses = {step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step}
    for action in sorted(uses):
        what = action.split("@")[0].removeprefix("actions/")
        if what == "checkout":  # act does it itself
            continue
        home = folder / "actions" / what
        home.mkdir(parents=True)
        doing = what.removesuffix("-artifact")
        script = f"'{sys.executable}' '{STANDIN}' {doing} '{folder / 'artifacts'}'" if doing != "cache" else "true"
        step = {
            "shell": "bash",
            "run": script,
            "env": {_variable(name): f"${{{{ inputs.{name} }}}}" for name in INPUTS},
        }
        inputs = {name: {"required": False} for name in (*INPUTS, "key")}
        text = {"name": what, "inputs": inputs, "runs": {"using": "composite", "steps": [step]}}
        (home / "action.yml").write_text(yaml.safe_dump(text))
        made.append(f"{action}={home}")
    return made


def _variable(name: str) -> str:
    return f"INPUT_{name.replace('-', '_').upper()}"


def _told(code: int, text: str) -> Run:
    passed, failed, log = set(), set(), []
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            log.append(line)
            continue
        job, message = str(entry.get("jobID", "")), str(entry.get("msg", "")).rstrip()
        log.append(f"{job}: {message}")
        if entry.get("jobResult") == "success":
            passed.add(job)
        elif entry.get("jobResult"):
            failed.add(job)
    return Run(frozenset(passed - failed), frozenset(failed), code, "\n".join(log))
