"""Passwords and tokens of the fleet tool: never in reports, state, patches, logs or on the screen."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from fleetkit.children import shown

from tests.updates.small_fleet import Fleet

CANARY = "canary-7f3a9c"


def canary_fleet(folder: Path) -> Fleet:
    """Return a fleet whose children have a password in their address and a host with a token."""
    fleet = Fleet(folder, {"clean": {"own.txt": "own\n"}, "gone": {"own.txt": "own\n"}})
    fleet.bare["gone"].rename(folder / "elsewhere")  # git then says in its error which address it cannot read
    children = [{"url": f"https://robot:{CANARY}@git.example.com/acme/{name}.git"} for name in fleet.bare]
    hosts = [
        {"match": "https://git.example.com/", "kind": "github", "api": "http://127.0.0.1:9", "token_env": "HOST_TOKEN"}
    ]
    (folder / "fleet.yml").write_text(yaml.safe_dump({"children": children, "hosts": hosts}), encoding="utf-8")
    fleet.environment["HOST_TOKEN"] = CANARY
    with Path(fleet.environment["GIT_CONFIG_GLOBAL"]).open("a", encoding="utf-8") as settings:
        settings.write(f'[url "{folder}/remotes/acme/"]\n\tinsteadOf = https://robot:{CANARY}@git.example.com/acme/\n')
    return fleet


def leaks(folder: Path) -> list[str]:
    """Return the files under `folder` that hold the canary."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [str(path.relative_to(folder)) for path in files if CANARY.encode() in path.read_bytes()]


@pytest.mark.needs("namespaces")
def test_no_credential_of_the_fleet_is_written_or_printed(tmp_path: Path) -> None:
    fleet = canary_fleet(tmp_path)
    runs: list[subprocess.CompletedProcess[str]] = [
        fleet.plan("--test", "env; git remote --verbose"),
        fleet.run("status", "--json"),
        fleet.run("apply", "--wave", "rest"),
        fleet.run("rollback", "--to", "v2.0.0"),
        fleet.run("plan", "--template", f"https://robot:{CANARY}@127.0.0.1:9/family.git"),
    ]
    assert fleet.record("clean")["outcome"] == "clean", runs[0].stdout
    assert "apply_error" in fleet.record("clean"), "the host was meant to be out of reach"
    log = (tmp_path / "state" / "logs" / "clean.log").read_text(encoding="utf-8")
    assert "PATH=" in log, "the children's tests did not run"
    printed = [" ".join(run.args[-4:]) for run in runs if CANARY in run.stdout + run.stderr]
    assert not printed, f"printed by {printed}"
    assert leaks(tmp_path / "state") == []


def test_only_credentials_are_taken_out_of_an_address() -> None:
    for address, expected in {
        "https://git.example.com/a/b.git": "https://git.example.com/a/b.git",
        "https://token@git.example.com/a.git": "https://***@git.example.com/a.git",
        "git@git.example.com:a/b.git": "git@git.example.com:a/b.git",
        "ssh://git@git.example.com/a.git": "ssh://git@git.example.com/a.git",
        "ssh://git:word@git.example.com/a.git": "ssh://git:***@git.example.com/a.git",
        "write to team@example.com": "write to team@example.com",
    }.items():
        assert shown({"url": [address]}) == {"url": [expected]}, address
