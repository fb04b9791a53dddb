"""What the fleet pushes: waves kept, no work replaced, a killed run finished by the next, all of it taken back."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import git
from tests.updates.host_server import serve
from tests.updates.remotes import EDITS, write_fleet
from tests.updates.small_fleet import BRANCH, Fleet
from tests.updates.tiny import MARKER, Child


@pytest.mark.slow
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
