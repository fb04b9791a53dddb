"""The fleet on stand-ins for GitHub and GitLab: pull requests are the state, and the token goes to its host alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.updates.code_host import serve
from tests.updates.fleet_world import TOKEN, World, make_world
from tests.updates.tiny import TEN_LINES as LINES

pytestmark = pytest.mark.slow


@pytest.fixture(params=["github", "gitlab"])
def hosted(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    """Return a fleet on a stand-in for a code host, which knows the token and reads the repositories."""
    world = make_world(tmp_path)
    with (tmp_path / "home" / "gitconfig").open("a") as config:
        config.write(f'[url "file://{tmp_path}/remotes/"]\ninsteadOf = https://git.example.com/\n')
    with serve(request.param, tmp_path / "remotes", TOKEN) as server:
        world.server = server
        rule = {"address": "https://git.example.com/", "kind": request.param, "api": server.address}
        world.rule = rule | {"token_env": "FLEET_TEST_TOKEN"}
        yield world


def at_host(world: World, *names: str, canary: str = "") -> None:
    """Write fleet.yml with children on the host."""
    children = [{"url": f"https://git.example.com/acme/{name}.git", "canary": name == canary} for name in names]
    world.fleet(folder="", children=children, hosts=[world.rule])


def test_requests_are_opened_once_as_drafts_where_hands_are_needed(hosted: World) -> None:
    hosted.child("one"), hosted.child("two", {"a.txt": "mine\n" + LINES})
    at_host(hosted, "one", "two")
    for _ in range(2):
        hosted.run("push", "--to", "v2.0.0", code=3)
    [one], [two] = hosted.server.pulls["acme/one"], hosted.server.pulls["acme/two"]
    assert (one.draft, one.title) == (False, "Update the template from v1.0.0 to v2.0.0")
    assert (two.draft, "- [ ] a.txt: both sides changed the same lines" in two.text) == (True, True)


def test_a_lost_request_is_opened_again_and_a_closed_one_stays_closed(hosted: World) -> None:
    hosted.child("one")
    at_host(hosted, "one")
    hosted.run("push", "--to", "v2.0.0")
    hosted.server.pulls["acme/one"].clear()  # as if the first run was killed after its push
    hosted.run("push", "--to", "v2.0.0")
    [one] = hosted.server.pulls["acme/one"]
    assert one.title == "Update the template from v1.0.0 to v2.0.0"
    one.state = "closed"
    assert hosted.run("push", "--to", "v2.0.0")["one"]["state"] == "closed"
    assert len(hosted.server.pulls["acme/one"]) == 1


def test_the_wave_waits_for_green_and_a_red_canary_is_named(hosted: World) -> None:
    for name in ("first", "rest"):
        hosted.child(name)
    at_host(hosted, "first", "rest", canary="first")
    hosted.run("push", "--to", "v2.0.0", "--canary")
    commit = hosted.branches("first")["template/v2.0.0"]
    hosted.server.checks[commit] = ["failure" if hosted.rule["kind"] == "github" else "failed"]
    assert hosted.run("status")["first"]["checks"] == "red"
    hosted.run("push", "--to", "v2.0.0", code=4)
    assert "a canary is red: first" in hosted.output
    hosted.server.checks[commit] = ["success"]
    assert hosted.run("push", "--to", "v2.0.0")["rest"]["state"] == "pushed"


def test_a_newer_release_supersedes_what_nobody_touched_and_close_takes_it_back(hosted: World) -> None:
    hosted.child("one")
    at_host(hosted, "one")
    hosted.run("push", "--to", "v2.0.0")
    hosted.release("3.0.0")
    hosted.run("push", "--to", "v3.0.0")
    [older, newer] = hosted.server.pulls["acme/one"]
    assert (older.state, newer.state, "Superseded by" in older.comments[0]) == ("closed", "open", True)
    assert set(hosted.branches("one")) == {"main", "template/v3.0.0"}
    assert hosted.run("close", "--to", "v3.0.0")["one"]["state"] == newer.state == "closed"
    assert set(hosted.branches("one")) == {"main"}


def test_a_request_that_no_longer_merges_is_made_anew_as_a_draft(hosted: World) -> None:
    hosted.child("one")
    at_host(hosted, "one")
    hosted.run("push", "--to", "v2.0.0")
    work = hosted.work("one")
    work.edit({"a.txt": "mine\n" + LINES})
    work.git("push", "--quiet", str(hosted.bare("one")), "main")
    assert hosted.run("push", "--to", "v2.0.0", code=3)["one"]["state"] == "draft"
    [one] = hosted.server.pulls["acme/one"]
    assert (one.draft, "- [ ] a.txt: both sides changed the same lines" in one.text) == (True, True)
    assert hosted.git(hosted.bare("one"), "rev-parse", "template/v2.0.0^") == hosted.branches("one")["main"]


def test_children_are_discovered_by_their_answers(hosted: World) -> None:
    hosted.child("one")
    follows = f"_src_path: {hosted.template.path}\n"
    hosted.server.answers = {"acme/one": follows, "acme/other": "_src_path: /elsewhere\n", "acme/none": None}
    hosted.fleet(folder="", hosts=[hosted.rule | {"discover": "acme"}])
    assert set(hosted.run("status")) == {"one"}


def test_the_token_is_in_no_file_no_output_and_on_no_command_line(hosted: World) -> None:
    hosted.child("one")
    at_host(hosted, "one", "gone")
    trace = hosted.folder / "trace"
    hosted.env |= {"GIT_TRACE": str(trace), "GIT_TRACE_SETUP": str(trace)}
    hosted.run("push", "--to", "v2.0.0", code=5)
    assert any(TOKEN in given for given in hosted.server.tokens)
    assert TOKEN not in hosted.output
    assert [
        str(file) for file in hosted.folder.rglob("*") if file.is_file() and TOKEN.encode() in file.read_bytes()
    ] == []
    assert trace.stat().st_size > 0
