"""The fleet: every outcome told, nothing pushed by a plan, waves kept, a killed run finished by the next."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.conftest import git
from tests.updates.copiers import ROOT
from tests.updates.host_server import serve
from tests.updates.remotes import EDITS, EXPECTED, write_fleet
from tests.updates.small_fleet import BRANCH, Fleet
from tests.updates.tiny import MARKER, Child


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
    fleet = Fleet(tmp_path, {"clean": EDITS["clean"], "dirty": EDITS["dirty"], "optout": EDITS["optout"]})
    fleet.plan()
    done = fleet.run("status", "--json")
    told = {record["name"]: record for record in json.loads(done.stdout)}
    assert (told["clean"]["version"], told["clean"]["behind"]) == ("v1.0.0", 1)
    assert told["optout"]["opted_out"] == ["b.txt"]
    assert "no answers that can be read" in told["dirty"]["error"]
    assert done.returncode == 6


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


def test_waves_wait_for_the_ones_before_and_max_open_holds_back(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"one": {}, "two": {}, "three": {}})
    write_fleet(tmp_path, {"one": "canary", "two": "rest", "three": "rest"})
    refused = fleet.run("apply", "--wave", "canary")
    assert (refused.returncode, "no finished plan" in refused.stderr) == (1, True)
    assert fleet.plan().returncode == 0
    refused = fleet.run("apply", "--wave", "rest")
    assert (refused.returncode, "wave canary merged v2.0.0 in 0 of 1" in refused.stderr) == (1, True)
    assert fleet.run("apply", "--wave", "canary").returncode == 0
    fleet.merge("one")
    assert fleet.run("apply", "--wave", "rest", "--max-open", "1").returncode == 0
    assert [BRANCH in fleet.branches(name) for name in ("two", "three")] == [True, False]
    fleet.merge("two")
    assert fleet.run("apply", "--wave", "rest", "--max-open", "1").returncode == 0
    assert BRANCH in fleet.branches("three")


@pytest.mark.release
def test_moved_child_and_foreign_branch_are_left_alone(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"moved": {}, "foreign": {}})
    fleet.plan()
    work = Child(tmp_path / "work" / "moved", fleet.template.copier)
    work.edit({"later.txt": "x\n"})
    work.git("push", "--quiet", str(fleet.bare["moved"]), "HEAD:main")
    subprocess.run(["git", "branch", BRANCH, "main"], cwd=fleet.bare["foreign"], check=True)
    theirs = fleet.branches("foreign")[BRANCH]
    done = fleet.run("apply", "--wave", "canary")
    assert done.returncode == 6
    assert "new commits since the plan" in str(fleet.record("moved")["apply_error"])
    assert BRANCH not in fleet.branches("moved")
    assert "somebody else changed" in str(fleet.record("foreign")["apply_error"])
    assert fleet.branches("foreign")[BRANCH] == theirs


@pytest.mark.slow
def test_the_plan_alone_is_enough_on_another_machine(tmp_path: Path) -> None:
    """Without its clones a plan is applied; a later one from an empty folder replaces what the tool itself pushed."""
    fleet = Fleet(tmp_path, {"one": {"own.txt": "mine\n"}, "foreign": {}})
    fleet.plan()
    shutil.rmtree(tmp_path / "state" / "clones")
    assert fleet.run("apply", "--wave", "canary").returncode == 0
    assert fleet.branches("one")[BRANCH] == fleet.record("one")["commit"]
    for name in ("one", "foreign"):  # each child goes on, and in one of them a person worked on the tool's branch
        push_change(fleet.bare[name], tmp_path / f"{name}-later", "HEAD", "own.txt", "later\n")
    theirs = push_change(fleet.bare["foreign"], tmp_path / "person", BRANCH, "mine.txt", "mine\n")
    shutil.rmtree(tmp_path / "state")
    fleet.plan()
    fleet.run("apply", "--wave", "canary")
    assert fleet.branches("one")[BRANCH] == fleet.record("one")["commit"], fleet.record("one")
    assert "somebody else changed" in str(fleet.record("foreign")["apply_error"])
    assert fleet.branches("foreign")[BRANCH] == theirs


def push_change(bare: Path, work: Path, branch: str, name: str, text: str) -> str:
    """Push a person's commit to a branch of a child and return it."""
    subprocess.run(["git", "clone", "--quiet", str(bare), str(work)], check=True)
    if branch != "HEAD":
        git(work, "checkout", "--quiet", branch)
    (work / name).write_text(text)
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message=A person's")
    git(work, "push", "--quiet", "origin", "HEAD")
    return git(work, "rev-parse", "HEAD").strip()


@pytest.mark.release
def test_rollback_reverts_what_was_merged_and_takes_back_what_was_not(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"merged": {"own.txt": "mine\n"}, "waiting": {}})
    fleet.plan()
    fleet.run("apply", "--wave", "canary")
    fleet.merge("merged")
    done = fleet.run("rollback", "--to", "v2.0.0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert BRANCH not in fleet.branches("waiting")
    back = fleet.branches("merged")["template/revert-v2.0.0"]
    shown = subprocess.run(
        ["git", "show", f"{back}:.copier-answers.yml"],
        cwd=fleet.bare["merged"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_commit: v1.0.0" in shown.stdout


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
def test_read_only_remote_is_told_and_not_half_pushed(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"good": {}, "locked": {}})
    fleet.plan()
    hook = fleet.bare["locked"] / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho read only >&2\nexit 1\n")
    hook.chmod(0o755)
    assert fleet.run("apply", "--wave", "canary").returncode == 6
    assert "git push" in str(fleet.record("locked")["apply_error"])
    assert (BRANCH in fleet.branches("good"), BRANCH in fleet.branches("locked")) == (True, False)


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


@pytest.mark.parametrize("kind", ["github", pytest.param("gitlab", marks=pytest.mark.release)])
def test_requests_are_opened_once_and_conflicts_are_drafts(tmp_path: Path, kind: str) -> None:
    fleet = Fleet(tmp_path, {"clean": EDITS["clean"], "conflict": EDITS["conflict"]})
    with serve(kind) as server:
        rule = {"match": f"file://{tmp_path}/remotes/", "kind": kind, "api": server.address, "token_env": "FLEET_TOKEN"}
        write_fleet(tmp_path, fleet.waves, [rule])
        fleet.plan()
        without = fleet.run("apply", "--wave", "canary")
        assert without.returncode == 6
        assert "set FLEET_TOKEN" in str(fleet.record("clean")["apply_error"])
        fleet.environment["FLEET_TOKEN"] = "wrong"
        assert fleet.run("apply", "--wave", "canary").returncode == 6
        assert "401" in str(fleet.record("clean")["apply_error"])
        fleet.environment["FLEET_TOKEN"] = server.token
        for _ in range(2):
            assert fleet.run("apply", "--wave", "canary").returncode == 3, fleet.record("clean")
        assert {name: len(found) for name, found in server.requests.items()} == {"acme/clean": 1, "acme/conflict": 1}
        clean, conflict = (server.requests[f"acme/{name}"][0] for name in ("clean", "conflict"))
        text = clean["body" if kind == "github" else "description"]
        assert "A security fix." in text
        assert "`a.txt`" in conflict["body" if kind == "github" else "description"]
        drafts = [r.get("draft", str(r["title"]).startswith("Draft: ")) for r in (clean, conflict)]
        assert drafts == [False, True]
        assert fleet.run("rollback", "--to", "v2.0.0").returncode == 0
        assert {clean["state"], conflict["state"]} == {"closed"}


def pushes(fleet: Fleet) -> list[str]:
    """Return the branch updates that the remotes saw, by their own records."""
    log = fleet.folder / "pushes.log"
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.release
def test_killed_apply_is_finished_by_the_next_and_pushes_nothing_twice(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(6)]
    fleet = Fleet(tmp_path, {name: {} for name in names})
    for bare in fleet.bare.values():
        hook = bare / "hooks" / "post-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\nread old new ref\necho {bare.name} $new $ref >> {tmp_path}/pushes.log\n")
        hook.chmod(0o755)
    fleet.plan()
    drawn = random.Random(7)
    for _ in range(20):
        run = subprocess.Popen(
            fleet.command("apply", "--wave", "canary"), env=fleet.environment, start_new_session=True
        )
        time.sleep(drawn.uniform(0.3, 3.0))
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    done = fleet.run("apply", "--wave", "canary")
    assert done.returncode == 0, done.stdout + done.stderr
    for name in names:
        assert fleet.branches(name)[BRANCH] == fleet.record(name)["commit"], f"{name} is half pushed"
    seen = pushes(fleet)
    assert len(seen) == len(set(seen)), f"a branch was pushed twice: {seen}"


def test_conflict_branch_carries_the_markers_for_its_owner(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"conflict": EDITS["conflict"]})
    assert fleet.plan().returncode == 3
    assert fleet.run("apply", "--wave", "canary").returncode == 3
    shown = subprocess.run(
        ["git", "show", f"{BRANCH}:a.txt"], cwd=fleet.bare["conflict"], capture_output=True, text=True, check=True
    )
    assert MARKER in shown.stdout
    assert fleet.record("conflict")["pushed"]["draft"] is True  # type: ignore[index]
