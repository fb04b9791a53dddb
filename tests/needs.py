"""`@pytest.mark.needs("gcc")`: what a test needs besides git, make and Python. Such a test belongs to `make test-slow`.

A missing program skips its tests with one reason; where ALL_NEEDS is set, it fails them, but for those with Docker.
`python -m tests.needs STEP` prints what is missing before a step.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache

import pytest

from tests.jenkins import jvm
from tests.shared import ROOT


def _history() -> bool:
    shallow = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return shallow.stdout.strip() == "false"


def _docker() -> bool:
    command = ["docker", "info", "--format", "{{.ServerVersion}}"]  # without an engine it may end with 0
    return shutil.which("docker") is not None and bool(
        subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    )


def _program(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


# What a test can need -> whether it is here, and how to get it.
NEEDS: dict[str, tuple[Callable[[], bool], str]] = {
    "gcc": (_program("gcc"), "apt-get install gcc python3-dev"),
    "g++": (_program("g++"), "apt-get install g++"),
    "groovy": (lambda: jvm.missing() is None, "apt-get install groovy default-jre-headless"),
    "skopeo": (_program("skopeo"), "apt-get install skopeo"),
    "cosign": (_program("cosign"), "apt-get install cosign (Debian 14), or the file of cosign 3 from its releases"),
    "promtool": (_program("promtool"), "apt-get install prometheus"),
    "chromium": (_program("chromium"), "apt-get install chromium"),
    "openssl": (_program("openssl"), "apt-get install openssl"),
    "rsync": (_program("rsync"), "apt-get install rsync"),
    "curl": (_program("curl"), "apt-get install curl"),
    "the history of git": (_history, "git fetch --unshallow --tags"),
    "docker": (_docker, "start a Docker Engine, or set DOCKER_HOST to one that runs"),
}


@cache
def is_here(name: str) -> bool:
    """Tell whether this machine has what a test needs."""
    return NEEDS[name][0]()


def of(item: pytest.Item) -> list[str]:
    """Return what a test needs, by its marks."""
    return [name for mark in item.iter_markers("needs") for name in mark.args]


@pytest.hookimpl(trylast=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Move a test that needs more than a newcomer has out of `make test`. Raises KeyError for an unknown need."""
    if any([NEEDS[name] for name in of(item)]):
        item.add_marker("slow")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose needs are not met, or fail it."""
    for name in of(item):
        if not is_here(name):
            why = f"needs {name}: {NEEDS[name][1]}"
            if os.environ.get("ALL_NEEDS") and name != "docker":
                pytest.fail(why, pytrace=False)
            pytest.skip(why)


def main(step: str, *required: str) -> int:
    """Print one line for each thing that is missing; return 2 where a required one is."""
    for name in required or [name for name in NEEDS if name != "docker"]:
        if not is_here(name):
            print(f"make {step}: {name} is missing{'' if required else ', its tests are skipped'}: {NEEDS[name][1]}")
    return 2 if any(not is_here(name) for name in required) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
