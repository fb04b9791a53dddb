"""The fleet's plan: every outcome told, nothing pushed, one odd child stops nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.conftest import git
from tests.updates.copiers import ROOT
from tests.updates.remotes import EDITS, EXPECTED
from tests.updates.small_fleet import BRANCH, Fleet
from tests.updates.tiny import Child


@pytest.mark.needs("namespaces")
def test_plan_tells_every_outcome_pushes_nothing_and_reports(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, EDITS)
    before = {name: fleet.branches(name) for name in fleet.bare}
    planned = fleet.plan("--test", "bash test.sh")
    assert planned.returncode == 6, "an unreadable child is the worst outcome"
    assert {name: fleet.record(name)["outcome"] for name in EDITS} == EXPECTED, planned.stdout
    assert {name: fleet.branches(name) for name in fleet.bare} == before, "a plan pushed something"
    assert fleet.record("conflict")["files"][0]["path"] == "a.txt"  # type: ignore[index]
    assert "restore it" in str(fleet.record("dirty")["message"])
    patch = (tmp_path / "state" / "patches" / "clean.patch").read_text()
    assert "+fixed" in patch
    suite = ET.parse(tmp_path / "state" / "fleet.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("6", "3", "1")
    told = json.loads((tmp_path / "state" / "fleet.json").read_text())
    assert told["counts"] == {"error": 1, "at risk": 1, "test failed": 1, "conflict": 1, "clean": 2}
    assert "A security fix." in told["children"][0]["changelog"]

    alone = Child(tmp_path / "alone", fleet.template.copier)
    fleet.template.git("clone", "--quiet", str(fleet.bare["clean"]), str(alone.path))
    program = [sys.executable, "-W", "ignore", str(ROOT / "hooks" / "safe_update.py"), "--dry-run", "--diff"]
    said = subprocess.run(
        program, cwd=alone.path, env=fleet.environment, capture_output=True, text=True, check=True
    ).stdout
    assert said.rstrip().endswith(patch.rstrip()), "the fleet's faster Copier makes another update than Copier itself"

    unchanged = fleet.record("clean")
    assert fleet.plan("--test", "bash test.sh").returncode == 6
    assert fleet.record("clean") == unchanged, "a child that did not move was planned again"

    pushed = fleet.run("apply", "--wave", "canary")
    assert pushed.returncode == 6, pushed.stderr
    got = {name: BRANCH in fleet.branches(name) for name in EDITS}
    assert got == {name: EXPECTED[name] in ("clean", "conflict") for name in EDITS}
    assert fleet.branches("clean")[BRANCH] == fleet.record("clean")["commit"]


@pytest.mark.slow
def test_status_tells_where_each_child_stands(tmp_path: Path) -> None:
    heavy = EDITS["clean"] | {"weights.txt": "x" * (2 << 20)}
    fleet = Fleet(tmp_path, {"clean": heavy, "dirty": EDITS["dirty"], "optout": EDITS["optout"]})
    fleet.plan()
    done = fleet.run("status", "--json")
    told = {record["name"]: record for record in json.loads(done.stdout)}
    assert (told["clean"]["version"], told["clean"]["behind"]) == ("v1.0.0", 1)
    assert told["optout"]["opted_out"] == ["b.txt"]
    assert "no answers that can be read" in told["dirty"]["error"]
    assert done.returncode == 6
    taken = tmp_path / "state" / "cache" / "status" / "clean"
    left_out = git(taken, "rev-list", "--objects", "--missing=print", "refs/heads/now").count("\n?")
    assert left_out == 1, "the weights of a child were fetched to look at its answers"


@pytest.mark.slow
def test_a_paused_child_is_left_alone_by_every_command(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"one": {}})
    children = [{"url": f"file://{fleet.bare['one']}"}, {"url": f"file://{tmp_path}/gone.git", "paused": True}]
    (tmp_path / "fleet.yml").write_text(json.dumps({"children": children}))
    assert fleet.plan().returncode == 0
    done = fleet.run("status", "--json")
    assert done.returncode == 0, done.stdout
    assert [record["outcome"] for record in json.loads(done.stdout)] == ["clean", "paused"]
    assert fleet.run("apply", "--wave", "rest").returncode == 0
    back = fleet.run("rollback", "--to", "v2.0.0")
    assert back.returncode == 0, back.stdout + back.stderr
    assert "gone" not in back.stdout


@pytest.mark.slow
def test_an_empty_repository_is_told_and_stops_nothing(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"one": {}})
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "empty.git")], check=True)
    children = [{"url": f"file://{fleet.bare['one']}"}, {"url": f"file://{tmp_path}/empty.git"}]
    (tmp_path / "fleet.yml").write_text(json.dumps({"children": children}))
    assert fleet.plan().returncode == 6
    assert "its repository is empty" in str(fleet.record("empty")["message"])
    assert fleet.record("one")["outcome"] == "clean"


@pytest.mark.slow
def test_an_error_of_git_is_told_by_its_cause(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"one": {}})
    nowhere = tmp_path / "nowhere.git"
    (tmp_path / "fleet.yml").write_text(f"children:\n- {{url: {nowhere}}}\n")
    done = fleet.run("status", "--json")
    [record] = json.loads(done.stdout)
    assert record["error"] == f"fatal: '{nowhere}' does not appear to be a git repository"
    assert done.returncode == 6


@pytest.mark.parametrize(
    ("text", "command", "words"),
    [
        ("children: [", ("status",), "is not a fleet file: it needs a list 'children'"),
        ("children: []\n", ("plan", "--template", ""), "--template is empty: it needs the address of the template"),
    ],
)
def test_a_wrong_start_is_one_line(tmp_path: Path, text: str, command: tuple[str, ...], words: str) -> None:
    fleet = Fleet(tmp_path, {"one": {}}, started=True)
    (tmp_path / "fleet.yml").write_text(text)
    done = fleet.run(*command)
    assert done.returncode == 1
    [line] = done.stderr.strip().splitlines()
    assert words in line


@pytest.mark.release
@pytest.mark.parametrize(
    ("damage", "message"),
    [("remote", "git clone"), ("template", "follows another template"), ("tag", "no version v1.0.0 any more")],
)
def test_broken_child_is_one_line_and_stops_nothing(tmp_path: Path, damage: str, message: str) -> None:
    fleet = Fleet(tmp_path, {"good": {}, "bad": {}})
    if damage == "remote":
        fleet.bare["bad"].rename(tmp_path / "gone")
    elif damage == "tag":
        fleet.template.git("tag", "v1.5.0", "v1.0.0")
        work = Child(tmp_path / "work" / "good", fleet.template.copier)
        work.edit({".copier-answers.yml": work.read(".copier-answers.yml").replace("v1.0.0", "v1.5.0")})
        work.git("push", "--quiet", str(fleet.bare["good"]), "HEAD:main")
        fleet.template.git("tag", "--delete", "v1.0.0")
    else:
        work = Child(tmp_path / "work" / "bad", fleet.template.copier)
        work.edit({".copier-answers.yml": "_commit: v1.0.0\n_src_path: /elsewhere\n"})
        work.git("push", "--quiet", str(fleet.bare["bad"]), "HEAD:main")
    assert fleet.plan().returncode == 6
    assert message in str(fleet.record("bad")["message"])
    assert fleet.record("good")["outcome"] == "clean"


@pytest.mark.release
def test_second_run_at_once_is_refused(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"one": {}})
    running = subprocess.Popen(
        [*fleet.command("plan", "--template", str(fleet.template.path)), "--test", "sleep 30"], env=fleet.environment
    )
    try:
        plan = tmp_path / "state" / "plan.json"
        while not plan.exists():
            assert running.poll() is None
            time.sleep(0.05)
        refused = fleet.plan()
        assert (refused.returncode, "another run works on" in refused.stderr) == (1, True)
    finally:
        running.kill()
        running.wait()
    for _ in range(100):
        left = subprocess.run(["pgrep", "-f", str(tmp_path / "fleet.yml")], capture_output=True, check=False).stdout
        if not left:
            return
        time.sleep(0.1)
    pytest.fail(f"a killed run leaves workers behind: {left.decode().split()}")
