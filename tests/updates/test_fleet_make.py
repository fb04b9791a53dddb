"""The targets of the fleet: what a pipeline's parameters say is text, for make and for the shell."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from fleetkit.children import Child, Fleet, HostRule
from fleetkit.fleet_file import as_text, load

from tests.conftest import ROOT

PYTHON = '#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done\n'


@pytest.mark.parametrize(
    ("target", "name", "option"),
    [
        ("fleet-plan", "TEMPLATE", "--template="),
        ("fleet-plan", "VERSION", "--to="),
        ("fleet-plan", "FLEET_FILE", "--fleet="),
        ("fleet-apply", "WAVE", "--wave="),
        ("fleet-list", "FLEET_FILE", "--fleet="),
    ],
)
def test_a_parameter_is_one_word_and_runs_nothing(tmp_path: Path, target: str, name: str, option: str) -> None:
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    included = str(ROOT / "hooks/updates.mk").replace(" ", "\\ ")
    (tmp_path / "Makefile").write_text(f"SHELL := /bin/bash\ninclude {included}\n")
    evil = "-x $(shell touch made)$(touch shell)`touch tick`\"; touch quote; ' $HOME"
    command = ["make", "--silent", target, f"PYTHON={tmp_path}/python", "READY="]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {name: evil}, capture_output=True, text=True, check=True
    )
    assert option + evil in done.stdout.splitlines(), done.stdout
    assert sorted(place.name for place in tmp_path.iterdir()) == ["Makefile", "python"]


def test_a_listed_fleet_is_read_again_and_lists_nothing(tmp_path: Path) -> None:
    rule = HostRule("https://github.com/", "github", "", "GITHUB_TOKEN", "acme", "https://github.com/acme/family.git")
    fleet = Fleet([Child("one", "https://github.com/acme/one.git", "canary", "ada", automerge=True)], [rule])
    place = tmp_path / "listed.yml"
    place.write_text(as_text(fleet))
    again = load(place)
    assert again.children == fleet.children
    assert again.known_hosts() == fleet.known_hosts()
    assert [(host.owner, host.token_env) for host in again.hosts] == [("", "GITHUB_TOKEN")]
    assert "owner: acme" not in yaml.safe_dump(yaml.safe_load(place.read_text())["hosts"])
