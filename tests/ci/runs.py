"""What runs on all systems have in common: kinds of builds, credentials, the agents of the jobs, what a run tells.

`jenkins.run`, `github.run` and `gitlab.run` take the same arguments: a repository, agents, credentials, the kind of the
build, and the pipeline. Credentials have the names that Jenkins gives them.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.ci import farm

SYSTEMS = ("jenkins", "github", "gitlab")
KINDS = ("main", "branch", "change", "tag", "fork")
WITHOUT_SECRETS = ("fork", "gone", "dependabot")  # a fork, one that was deleted since, a pull request of Dependabot
BRANCH = "feature/it's-$(id)"
OWNER = "acme"
TAG = "v0.1.0"
NUMBERS = itertools.count(1)
CREDENTIALS = {
    "registry-staging": farm.STAGING_LOGIN,
    "registry-release": farm.RELEASE_LOGIN,
    "package-index": farm.INDEX_LOGIN,
}
NAMES = {  # what GitHub and GitLab call a credential, and the environments of GitLab that have it
    "registry-staging": ("REGISTRY", ["staging"]),
    "registry-release": ("REGISTRY", ["release"]),
    "package-index": ("PACKAGE_INDEX", ["release"]),
    "kubeconfig": ("KUBECONFIG", ["production"]),
    "fleet-github": ("FLEET_TOKEN", []),
    "fleet-gitlab": ("GITLAB_TOKEN", ["fleet-canaries", "fleet"]),
    "template-update": ("UPDATE_TOKEN", ["*"]),
}


@dataclass(frozen=True)
class Pipeline:
    """The file of Jenkins and the workflows of GitHub, of which the first may call the others; GitLab has one file."""

    jenkins: str
    github: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """One run: the jobs that passed, those that failed, its exit code, and what all of them said."""

    passed: frozenset[str]
    failed: frozenset[str]
    code: int
    log: str


def ended(passed: Iterable[str], failed: Iterable[str], code: int, log: str) -> Run:
    """Return a run whose jobs have the same names on all systems: without the row and without "fleet "."""
    short = [frozenset(name.removeprefix("fleet ").partition(" ")[0] for name in names) for names in (passed, failed)]
    return Run(short[0] - short[1], short[1], code, log)


def environment(folder: Path, first: Path) -> dict[str, str]:
    """Return the environment of a job of GitHub and GitLab: of the tests' own what concerns packages and addresses.

    first: what each bash reads before anything else.
    """
    kept = re.compile(r"(?i)^(path|lang|(lc|mypy|pip|uv|ssl_cert)_.*|(https?|no|all)_proxy|requests_ca_bundle)$")
    outside = {name: value for name, value in os.environ.items() if kept.match(name)}
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    (home / ".gitconfig").write_text("[user]\n\tname = CI\n\temail = ci@example.com\n[safe]\n\tdirectory = *\n")
    return outside | {"HOME": str(home), "BASH_ENV": str(first)}


def agents_of_jobs(labels: Mapping[str, str], agents: farm.Agents, file: Path) -> Path:
    """Write what bash reads first: the agent of each job, by its label, comes first on PATH."""
    lines = ['job=${GITHUB_JOB:-${CI_JOB_NAME:-}} agent=""', "case $job in"]
    for job, label in labels.items():
        lines += [f"    {shlex.quote(job)}) agent={shlex.quote(str(agents.labels.get(label, '')))} ;;"]
    lines += ["esac", 'if [ "${AGENT:-}" != "$agent" ]; then export AGENT=$agent PATH="$agent:$PATH"; fi']
    file.write_text("\n".join(lines) + "\n")
    return file
