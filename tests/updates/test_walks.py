"""The walk through the code goes down, of an update and of a child through the fleet tool: nothing calls up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.updates.copiers import ROOT, copier_at
from tests.updates.host_server import serve
from tests.updates.remotes import release_first, release_second, write_fleet
from tests.updates.small_fleet import Fleet
from tests.updates.tiny import Template, make_child
from tests.updates.walk import climbs


def walk(edges: Path, program: list[str], environment: dict[str, str]) -> list[str]:
    """Run a program of hooks/ and return its calls that go up."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.updates.walk", str(edges), *program],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 3), done.stderr
    assert edges.read_text().count("\n") > 10, done.stderr
    return climbs(edges)


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--dry-run", "--diff"], ["--to", "v2.0.0", "--json"]], ids=" ".join)
def test_the_walk_of_an_update_goes_down_only(tmp_path: Path, options: list[str]) -> None:
    template = Template(tmp_path / "template", copier_at(tmp_path / "home"))
    release_first(template)
    child = make_child(template, tmp_path / "child", edits={"own.txt": "own\n", "a.txt": "mine\n"})
    release_second(template)
    program = [str(ROOT / "hooks" / "safe_update.py"), "--repository", str(child.path), *options]
    assert walk(tmp_path / "edges", program, template.copier.environment()) == []


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
            program = [str(ROOT / "hooks" / "fleet.py"), *fleet.places(), *arguments]
            assert walk(tmp_path / f"{number}.edges", program, fleet.environment) == [], arguments[0]
