"""The fleet on bare repositories: each child gets a branch with its update, and nothing of an owner is lost."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.sampling import sampled
from tests.updates.fleet_world import World, make_world
from tests.updates.tiny import TEN_LINES as LINES


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a fleet without children."""
    return make_world(tmp_path)


def test_nothing_of_an_owner_is_lost_and_the_template_s_fix_arrives(world: World) -> None:
    world.child("one", {"a.txt": LINES + "mine\n", "own.txt": "own\n", "b.txt": None, "yours.txt": "my seed\n"})
    assert world.run("push", "--to", "v2.0.0")["one"]["state"] == "pushed"
    files = world.git(world.bare("one"), "ls-tree", "-r", "--name-only", "template/v2.0.0").splitlines()
    assert world.read("one", "a.txt") == "fixed\n" + LINES + "mine"
    assert (world.read("one", "own.txt"), world.read("one", "yours.txt")) == ("own", "my seed")
    assert ("b.txt" in files, "dropped.txt" in files) == (False, False)
    assert yaml.safe_load(world.read("one", ".copier-answers.yml"))["_commit"] == "v2.0.0"


@pytest.mark.slow
def test_a_second_run_changes_nothing(world: World) -> None:
    for name, edits in {"one": {}, "two": {"a.txt": "mine\n" + LINES}}.items():
        world.child(name, dict(edits))
    world.run("push", "--to", "v2.0.0", code=3)
    before = [world.branches(name) for name in ("one", "two")]
    assert world.run("push", "--to", "v2.0.0", code=3)["one"]["state"] == "unchanged"
    assert [world.branches(name) for name in ("one", "two")] == before
    assert {(row["state"], row["behind"]) for row in world.run("status").values()} == {("open", True), ("draft", True)}
    assert "newest release v2.0.0" in world.output


@pytest.mark.slow
def test_a_conflict_and_an_edit_at_risk_become_drafts_that_say_what_to_do(world: World) -> None:
    world.child("clash", {"a.txt": "mine\n" + LINES})
    world.child("risk", {"dropped.txt": LINES + "mine\n"})
    trial = world.run("push", "--to", "v2.0.0", "--dry-run", code=3)
    assert [set(world.branches(name)) for name in ("clash", "risk")] == [{"main"}, {"main"}], "a dry run pushed"
    rows = world.run("push", "--to", "v2.0.0", code=3)
    assert [row["reason"] for row in trial.values()] == [row["reason"] for row in rows.values()]
    assert {row["state"] for row in rows.values()} == {"draft"}
    assert "a.txt: both sides changed the same lines" in rows["clash"]["reason"]
    assert "dropped.txt: the template dropped it and you changed it" in rows["risk"]["reason"]
    assert re.match(r"<<<<<<< .*\nmine\n=+\nfixed\n>>>>>>> ", world.read("clash", "a.txt"))
    assert world.read("risk", "dropped.txt").endswith("mine")


@pytest.mark.slow
def test_a_dead_child_does_not_stop_the_others(world: World) -> None:
    for name in ("alive", "dead", "odd"):
        world.child(name, {".copier-answers.yml": "{[\n"} if name == "odd" else None)
    answers = f"_commit: 1a2b3c4\n_src_path: {world.template.path}\n"
    world.child("unreleased", {".copier-answers.yml": answers})
    for part in world.bare("dead").glob("objects/*"):
        subprocess.run(["rm", "-rf", str(part)], check=True)
    rows = world.run("push", "--to", "v2.0.0", code=5)
    assert [row["state"] for row in rows.values()] == ["pushed", "error", "error", "error"]
    assert "it follows the commit 1a2b3c4, not a release: run scripts/update" in rows["unreleased"]["reason"]
    assert "the last commit has no .copier-answers.yml" in rows["odd"]["reason"]
    assert rows["dead"]["reason"]


@pytest.mark.slow
def test_a_branch_that_a_person_worked_on_is_left_alone(world: World) -> None:
    world.child("one")
    world.run("push", "--to", "v2.0.0")
    commit = world.person_commits("one", "template/v2.0.0")
    assert world.run("push", "--to", "v2.0.0")["one"]["state"] == "edited"
    world.release("3.0.0")
    assert "a person works on it" in world.run("push", "--to", "v3.0.0")["one"]["reason"]
    world.run("close", "--to", "v2.0.0")
    assert world.branches("one")["template/v2.0.0"] == commit


@pytest.mark.slow
def test_the_others_wait_for_a_canary_and_not_for_a_quiet_one(world: World) -> None:
    for name in ("first", "quiet", "rest"):
        world.child(name)
    world.canaries("first", "quiet")
    world.run("push", "--to", "v2.0.0", code=4)
    assert "not yet, no canary has it: run `make fleet-push CANARY=1` first" in world.output
    assert set(world.run("push", "--to", "v2.0.0", "--canary")) == {"first", "quiet"}
    assert set(world.run("push", "--to", "v2.0.0", code=4)) == {"first", "quiet"}
    assert "no canary is green or merged yet; not counted: first (no CI reports on it" in world.output
    assert set(world.branches("rest")) == {"main"}
    world.merge("first")
    rows = world.run("push", "--to", "v2.0.0")
    assert {name: row["state"] for name, row in rows.items()} == {
        "first": "up to date",
        "quiet": "unchanged",
        "rest": "pushed",
    }
    assert world.run("close", "--to", "v2.0.0")["first"]["reason"].startswith("merged there: release a revert")
    withdraw = "push origin v2.0.0:refs/tags/withdrawn/v2.0.0"
    assert f"v2.0.0 is still a release, withdraw it in the template: git {withdraw}" in world.output
    assert [row["behind"] for row in world.run("status").values()] == [False, True, True]
    world.template.git("tag", "withdrawn/v2.0.0", "v2.0.0")
    world.run("close", "--to", "v2.0.0")
    assert "still a release" not in world.output
    assert [row["withdrawn"] for row in world.run("status").values()] == [True, False, False]


MISTAKES = [
    ("template: x\nchilds: []\n", "childs: Extra inputs"),
    ("template: x\ntemplate: y\n", "line 1: template is there twice"),
    ("template: https://me:secret@example.com/x\n", "remove the login"),
    ("template: x\nhosts: [{address: a, kind: svn, token_env: T}]\n", "hosts.0.kind: Input should be 'github' or"),
    ("template: x\nchildren: [{url: y, wave: early}]\n", "children.0.wave: Extra inputs"),
]


@pytest.mark.parametrize(("text", "told"), sampled(MISTAKES, MISTAKES[:1]))
def test_a_mistake_in_the_file_is_one_line(world: World, text: str, told: str) -> None:
    (world.folder / "fleet.yml").write_text(text)
    world.run("push", "--to", "v2.0.0", code=1)
    assert (told in world.output, "secret" in world.output, world.output.count("\n")) == (True, False, 1), world.output
