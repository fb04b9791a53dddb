"""What a person gives a build reaches the programs behind `make` as text and is never run.

Jenkins' parameters, GitHub's inputs and GitLab's variables are set by people who may start a build and need not be
those who may release: their values come in the environment.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

HOSTILE = """v1"; touch typed; '`touch ticks`$(touch shell)$(shell touch make)' """
TARGETS = {  # the options of each target that a pipeline calls, by the variable that they come from
    "fleet-status": {"FLEET_FILE": "file"},
    "fleet-push": {"VERSION": "to", "FLEET_FILE": "file"},
    "fleet-close": {"VERSION": "to", "FLEET_FILE": "file"},
    "images": {"IMAGE": "image", "REGISTRY": "registry", "STAGING": "staging"},
    "push": {"IMAGE": "image", "REGISTRY": "registry", "STAGING": "staging"},
    "smoke-digest": {"IMAGE": "image", "REGISTRY": "registry", "STAGING": "staging"},
    "promote": {
        "IMAGE": "image", "REGISTRY": "registry", "STAGING": "staging",
        "PUSHED": "pushed", "SMOKE": "smoke", "RECORD": "record",
    },
}  # fmt: skip
CHECKS_AWAY = {"REQUIRE": "none", "DIGEST": "sha256:0"}
ONE = "#!/usr/bin/env python3\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n"


def told(target: str, folder: Path, variables: dict[str, str], *typed: str) -> list[str]:
    """Return what the program behind a target is called with."""
    python = folder / "python"
    python.write_text(ONE)
    python.chmod(0o755)
    (folder / "Makefile").write_text((ROOT / "Makefile").read_text())
    for file in ("base-images/images.mk", "hooks/updates.mk"):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text((ROOT / file).read_text())
    command = ["make", "--silent", "--old-file=python", target, f"PYTHON={python}", "READY=python", *typed]
    around = {"PATH": os.environ["PATH"], **variables}
    done = subprocess.run(command, cwd=folder, env=around, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[str] = json.loads(done.stdout.splitlines()[0])
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_person_gives_is_text(target: str, tmp_path: Path) -> None:
    given = {name: f"{HOSTILE}{name}" for name in TARGETS[target]}
    before = {"python", "Makefile", "base-images", "hooks"}
    words = told(target, tmp_path, given)
    for name, option in TARGETS[target].items():
        assert f"--{option}={given[name]}" in words, name
    made = {path.name for path in tmp_path.iterdir()} - before
    assert not made, f"{target} ran what it was given: {made}"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["smoke-digest", "promote"])
def test_a_variable_of_a_build_takes_no_check_away(target: str, tmp_path: Path) -> None:
    """Typed behind make, by a person at a terminal, it does."""
    for name, value in CHECKS_AWAY.items():
        assert not any(value in word for word in told(target, tmp_path, {name: value})), name
        assert any(value in word for word in told(target, tmp_path, {}, f"{name}={value}")), name


@pytest.mark.parametrize("file", ["Jenkinsfile", "hooks/fleet.Jenkinsfile", ".gitlab-ci.yml", "fleet.yml", "image.yml"])
def test_no_pipeline_types_what_people_give(file: str) -> None:
    """make reads what stands behind it as its own language. A row comes from the file itself, but for GitLab's."""
    path = ROOT / file if (ROOT / file).exists() else ROOT / ".github" / "workflows" / file
    typed = re.findall(r"\bmake (?:[a-z-]+) (.*\$.*)", path.read_text())
    names = {name for line in typed for name in re.findall(r"\$\{?(\w+)", line)}
    assert names <= ({"ROW", "REGISTRY"} if file in ("Jenkinsfile", "image.yml") else set()), names
