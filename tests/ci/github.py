"""Run a child's GitHub workflow with `act` on this machine: its jobs, their steps and their conditions.

act knows nothing of what GitHub itself guards (README.md). So the labels are mapped here, a fork's run gets no secret,
and tests ask what reached the registry.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.ci.runs import NUMBERS, OWNER, TAG, Run, agents_of_jobs, environment
from tests.conftest import git
from tests.jenkins.pipelines import farm
from tests.jenkins.pipelines.children import Builds

BIN = Path(sys.executable).parent
WORKFLOW = ".github/workflows/ci.yml"
LABELS = {"ubuntu-latest": "docker", "gpu": "gpu", "deploy": "kubectl"}
STANDIN = Path(__file__).parent / "standins" / "artifacts.py"
INPUTS = ("name", "path", "if-no-files-found", "overwrite", "pattern", "merge-multiple")


def run(it: Builds, kind: str, *, labels: tuple[str, ...] = tuple(LABELS), changed: bool = False) -> Run:
    """Run the workflow for a push to main, a pull request, a tag, or a pull request of a fork.

    labels: those that a runner has. changed: the work tree holds what is not committed, as a fork's branch would.
    """
    folder = it.agents.folder / f"act-{next(NUMBERS)}"
    folder.mkdir()
    if not git(it.child, "remote").strip():
        git(it.child, "remote", "add", "origin", f"https://github.com/{OWNER}/{it.child.name}.git")
    event = folder / "event.json"
    event.write_text(json.dumps(_event(kind, it.child.name)))
    command = [str(BIN / "act"), "push" if kind in ("main", "tag") else "pull_request", "--eventpath", str(event)]
    command += ["--workflows", WORKFLOW, "--no-cache-server", "--action-cache-path", str(folder / "cache"), "--json"]
    command += [word for label in labels for word in ("--platform", f"{label}=-self-hosted")]
    command += [word for stand in _actions(it.child, folder) for word in ("--local-repository", stand)]
    if kind != "fork":  # as GitHub does, which gives a fork neither
        command += [word for secret in _secrets(it) for word in ("--secret", secret)]
        command += ["--var", f"REGISTRY_USER={farm.STAGING_LOGIN[0]}", "--var", f"PACKAGE_INDEX_URL={it.index.url}/"]
        command += ["--var", f"PACKAGE_INDEX_USER={farm.INDEX_LOGIN[0]}"]
    around = environment(folder, []) | {"BASH_ENV": str(_agents(it, folder))}
    done = subprocess.run(command, cwd=it.child, env=around, capture_output=True, text=True, check=False)
    return _told(done.returncode, done.stdout + done.stderr)


def _event(kind: str, name: str) -> dict[str, Any]:
    if kind == "tag":
        return {"ref": f"refs/tags/{TAG}"}
    if kind == "main":
        return {"ref": "refs/heads/main"}
    here, there = f"{OWNER}/{name}", f"stranger/{name}" if kind == "fork" else f"{OWNER}/{name}"
    head = {"ref": "feature/it's", "repo": {"full_name": there}}
    return {
        "number": 7,
        "pull_request": {"number": 7, "head": head, "base": {"ref": "main", "repo": {"full_name": here}}},
    }


def _secrets(it: Builds) -> list[str]:
    named = {"REGISTRY_PASSWORD": farm.STAGING_LOGIN[1], "PACKAGE_INDEX_PASSWORD": farm.INDEX_LOGIN[1]}
    named["KUBECONFIG"] = "cluster: test"
    return [f"{name}={value}" for name, value in named.items()]


def _jobs(child: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((child / WORKFLOW).read_text())["jobs"]
    return found


def _agents(it: Builds, folder: Path) -> Path:
    jobs = {}
    for name, job in _jobs(it.child).items():
        [label] = re.findall(r"\|\| '([\w-]+)' \}\}", job["runs-on"])
        jobs[name] = (LABELS[label], job.get("environment", ""))
    return agents_of_jobs(jobs, it.agents, folder / "agents.sh")


def _actions(child: Path, folder: Path) -> list[str]:
    """Make a stand-in for every action that the workflow uses, at the very commit that it names."""
    made = []
    uses = {step["uses"] for job in _jobs(child).values() for step in job["steps"] if "uses" in step}
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
