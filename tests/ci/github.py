"""Run the workflows of a repository with `act` on this machine: their jobs, steps and conditions.

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

from tests.ci import farm
from tests.ci.runs import (
    BRANCH,
    NAMES,
    NUMBERS,
    OWNER,
    TAG,
    WITHOUT_SECRETS,
    Pipeline,
    Run,
    agents_of_jobs,
    ended,
    environment,
)
from tests.conftest import git

LABELS = {"ubuntu-latest": "docker", "docker": "docker", "gpu": "gpu", "deploy": "kubectl"}
EVENTS = {
    "queue": "merge_group",
    "schedule": "schedule",
    "dispatch": "workflow_dispatch",  # by a person, on a branch
    **dict.fromkeys(("change", *WITHOUT_SECRETS), "pull_request"),
}
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
# act has no secrets of an environment: those of `release` replace the repository's in the steps that use them.
RELEASE = """
case $job in {jobs}) [ -z "${{REGISTRY_PASSWORD:-}}" ] || REGISTRY_USER={user} REGISTRY_PASSWORD={password} ;; esac
"""
INPUTS = ("name", "path", "if-no-files-found", "overwrite", "pattern", "merge-multiple")


def run(
    source: Path,
    agents: farm.Agents,
    credentials: Mapping[str, Any],
    kind: str,
    pipeline: Pipeline,
    *,
    variables: Mapping[str, str] | None = None,
    tag: str = TAG,
    row: str = "",
    approve: bool = True,
) -> Run:
    """Run the first workflow of a pipeline for a build of this kind. row: the one cell of its matrix."""
    assert approve, "act asks no reviewer"
    folder = agents.folder / f"act-{next(NUMBERS)}"
    folder.mkdir()
    if not git(source, "remote").strip():
        git(source, "remote", "add", "origin", f"https://github.com/{OWNER}/{source.name}.git")
    event = folder / "event.json"
    event.write_text(json.dumps(_event(kind, source.name, tag)))
    jobs = {name: job for file in pipeline.github for name, job in _jobs(source / file).items() if "runs-on" in job}
    programs = Path(sys.executable).parent
    command = [str(programs / "act"), EVENTS.get(kind, "push"), "--eventpath", str(event), "--json"]
    command += ["--workflows", pipeline.github[0], "--no-cache-server", "--action-cache-path", str(folder / "cache")]
    command += ["--matrix", f"row:{row}"] if row else []
    for label, place in LABELS.items():
        command += ["--platform", f"{label}=-self-hosted"] if place in agents.labels else []
    command += [word for stand in _actions(jobs, folder) for word in ("--local-repository", stand)]
    command += _given(kind, credentials, variables or {})
    first = agents_of_jobs({name: LABELS[_label(job)] for name, job in jobs.items()}, agents, folder / "agents.sh")
    said = folder / "said.log"
    said.touch()
    user, password = map(shlex.quote, credentials.get("registry-release", ("", "")))
    releasing = "|".join(name for name, job in jobs.items() if job.get("environment") == "release") or "none"
    with first.open("a") as file:
        file.write(RELEASE.format(jobs=releasing, user=user, password=password))
        file.write(TELL.format(file=shlex.quote(str(said))))
    around = environment(folder, first)
    done = subprocess.run(command, cwd=source, env=around, capture_output=True, text=True, check=False)
    return _told(done.returncode, done.stdout + done.stderr + said.read_text(errors="replace"))


def _label(job: Mapping[str, Any]) -> str:
    [label] = re.findall(r"\|\| '([\w-]+)' \}\}", job["runs-on"])
    return str(label)


def _given(kind: str, credentials: Mapping[str, Any], variables: Mapping[str, str]) -> list[str]:
    """Return the options with the variables and the secrets that GitHub gives a build of this kind."""
    known, secrets = dict(variables), {}
    for name, credential in credentials.items():
        prefix = NAMES[name][0]
        if isinstance(credential, tuple) and name != "registry-release":
            known[f"{prefix}_USER"], secrets[f"{prefix}_PASSWORD"] = credential
        elif not isinstance(credential, tuple):
            secrets[prefix] = credential.read_text() if isinstance(credential, Path) else credential
    words = [f"--var={key}={value}" for key, value in known.items() if kind not in ("fork", "gone")]
    return words + [f"--secret={key}={value}" for key, value in secrets.items() if kind not in WITHOUT_SECRETS]


def _event(kind: str, name: str, tag: str) -> dict[str, Any]:
    if kind == "tag":
        return {"ref": f"refs/tags/{tag}"}
    if kind == "queue":
        head = "refs/heads/gh-readonly-queue/main/pr-7"
        return {"action": "checks_requested", "merge_group": {"head_ref": head, "base_ref": "refs/heads/main"}}
    if EVENTS.get(kind) != "pull_request":
        return {"ref": f"refs/heads/{BRANCH if kind in ('branch', 'dispatch') else 'main'}"}
    here, there = f"{OWNER}/{name}", f"stranger/{name}" if kind == "fork" else f"{OWNER}/{name}"
    # Of a fork that is gone, GitHub says nothing.
    head = {"ref": BRANCH, "repo": None if kind == "gone" else {"full_name": there}}
    user = {"login": "dependabot[bot]" if kind == "dependabot" else "somebody"}
    base = {"ref": "main", "repo": {"full_name": here}}
    return {"number": 7, "pull_request": {"number": 7, "head": head, "base": base, "user": user}}


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
        given = {f"INPUT_{name.replace('-', '_').upper()}": f"${{{{ inputs.{name} }}}}" for name in INPUTS}
        inputs = {name: {"required": False} for name in (*INPUTS, "key")}
        steps = [{"shell": "bash", "run": script, "env": given}]
        text = {"name": what, "inputs": inputs, "runs": {"using": "composite", "steps": steps}}
        (home / "action.yml").write_text(yaml.safe_dump(text))
        made.append(f"{action}={home}")
    return made


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
    return ended(passed, failed, code, "\n".join(log))
