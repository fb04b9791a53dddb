"""The walk of a child through the fleet tool goes down: no module is called back by one that it builds on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.updates.copiers import ROOT
from tests.updates.host_server import serve
from tests.updates.remotes import write_fleet
from tests.updates.small_fleet import Fleet
from tests.updates.walk import climbs


@pytest.mark.slow
def test_the_walk_of_a_child_goes_down_only(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"one": {"own.txt": "own\n"}, "two": {"a.txt": "mine\n"}})
    with serve("github") as server:
        rule = {"match": f"file://{tmp_path}/remotes/", "kind": "github", "api": server.address}
        write_fleet(tmp_path, fleet.waves, [rule | {"token_env": "FLEET_TOKEN"}])
        fleet.environment["FLEET_TOKEN"] = server.token
        for number, arguments in enumerate(
            [
                ["plan", "--template", str(fleet.template.path), "--test", "true"],
                ["apply", "--wave", "canary"],
                ["status"],
                ["drift"],
                ["remind", "--days", "0"],
                ["rollback", "--to", "v2.0.0"],
                ["lock"],
            ]
        ):
            edges = tmp_path / f"{number}.edges"
            program = [str(ROOT / "hooks" / "fleet.py"), *fleet.places(), *arguments]
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-m", "tests.updates.walk", str(edges), *program],
                cwd=ROOT, env=fleet.environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode in (0, 3), done.stderr
            assert edges.read_text().count("\n") > 10, done.stderr
            assert climbs(edges) == [], arguments[0]
