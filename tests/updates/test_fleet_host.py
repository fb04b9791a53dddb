"""What the fleet did is found again on the code host: an empty folder goes on, and takes exactly one version back."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.updates.code_host import Server
from tests.updates.host_server import serve
from tests.updates.remotes import FIRST, SETTINGS, write_fleet
from tests.updates.small_fleet import BRANCH, Fleet
from tests.updates.tiny import Child


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["github", pytest.param("gitlab", marks=pytest.mark.release)])
def test_an_empty_folder_goes_on_and_a_closed_request_stays_closed(tmp_path: Path, kind: str) -> None:
    fleet = Fleet(tmp_path, {"one": {}, "two": {}})
    with serve(kind) as server:
        rule = {"match": f"file://{tmp_path}/remotes/", "kind": kind, "api": server.address, "token_env": "FLEET_TOKEN"}
        write_fleet(tmp_path, fleet.waves, [rule])
        fleet.environment["FLEET_TOKEN"] = server.token
        fleet.plan()
        assert fleet.run("apply", "--wave", "canary").returncode == 0
        before = fleet.branches("one")
        closed = server.requests["acme/two"][0]
        closed["state"] = "closed"
        shutil.rmtree(tmp_path / "state")
        assert fleet.plan().returncode == 0
        again = fleet.run("apply", "--wave", "canary")
        assert again.returncode == 0, again.stdout
        assert fleet.branches("one") == before, "the same plan was another commit"
        assert [len(found) for found in server.requests.values()] == [1, 1]
        assert closed["state"] == "closed"
        assert fleet.record("two")["pushed"]["closed"] == "by a person"  # type: ignore[index]

        fleet.template.release("v2.0.10", FIRST | {"a.txt": "fixed twice\n"}, SETTINGS)
        fleet.plan()
        assert fleet.run("apply", "--wave", "canary").returncode == 0
        states = [request["state"] for request in server.requests["acme/one"]]
        assert states == ["closed", "open" if kind == "github" else "opened"], "one open request for a child"

        shutil.rmtree(tmp_path / "state")
        assert fleet.run("rollback", "--to", "v2.0.10").returncode == 0
        assert server.requests["acme/one"][1]["state"] == "closed"
        assert "template/v2.0.10" not in fleet.branches("one")
        nothing = fleet.run("rollback", "--to", "v1.9.0")
        assert nothing.returncode != 0, "nothing was done, and it is said to be good"


SLOW = pytest.mark.release


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["git", "github", pytest.param("gitlab", marks=SLOW)])
def test_an_empty_folder_opens_no_more_requests_than_allowed(tmp_path: Path, kind: str) -> None:
    """What an earlier run opened is counted on the host, requests of an older version too."""
    fleet = Fleet(tmp_path, {"one": {}, "two": {}, "three": {}})
    with serve(kind) if kind != "git" else nullcontext(Server()) as server:
        rule = {"match": f"file://{tmp_path}/remotes/", "kind": kind, "api": server.address, "token_env": "FLEET_TOKEN"}
        write_fleet(tmp_path, fleet.waves, [rule] if kind != "git" else [])
        fleet.environment["FLEET_TOKEN"] = server.token

        def has_branch() -> list[str]:
            return [name for name in fleet.bare if any(b.startswith("template/") for b in fleet.branches(name))]

        fleet.plan()
        assert fleet.run("apply", "--wave", "canary", "--max-open", "2").returncode == 0
        assert has_branch() == ["one", "two"]
        fleet.template.release("v2.0.10", FIRST | {"a.txt": "fixed twice\n"}, SETTINGS)
        for room in (1, 2, 3):
            shutil.rmtree(tmp_path / "state")
            fleet.plan()
            assert fleet.run("apply", "--wave", "canary", "--max-open", str(room)).returncode == 0
            assert has_branch() == ["one", "two", *(["three"] if room == 3 else [])], room
        assert all("template/v2.0.10" in fleet.branches(name) for name in fleet.bare), "no older one was replaced"
        if kind == "git":
            return
        server.token = "another"
        silent = fleet.run("apply", "--wave", "canary", "--max-open", "3")
        assert "one does not tell its open requests and counts as one" in silent.stderr


@pytest.mark.parametrize("way", ["squash", pytest.param("merge", marks=SLOW), pytest.param("rebase", marks=SLOW)])
def test_rollback_takes_exactly_one_version_back(tmp_path: Path, way: str) -> None:
    fleet = Fleet(tmp_path, {"one": {}})
    fleet.template.release("v2.0.1", FIRST | {"a.txt": "first fix\n"}, SETTINGS)
    fleet.template.release("v2.0.10", FIRST | {"a.txt": "second fix\n"}, SETTINGS)
    child = Child(tmp_path / "work" / "one", fleet.template.copier)
    for version in ("v2.0.1", "v2.0.10"):
        fleet.plan("--to", version)
        assert fleet.run("apply", "--wave", "canary").returncode == 0
        child.git("fetch", "--quiet", str(fleet.bare["one"]), f"template/{version}")
        child.edit({f"own-{version}.txt": "meanwhile\n"})
        if way == "merge":
            child.git("merge", "--quiet", "--no-ff", "--no-edit", "FETCH_HEAD")
        elif way == "squash":
            child.git("merge", "--quiet", "--squash", "FETCH_HEAD")
            child.commit(f"Squashed {version}")
        else:
            child.git("cherry-pick", "FETCH_HEAD")
        child.git("push", "--quiet", str(fleet.bare["one"]), "HEAD:main")
    shutil.rmtree(tmp_path / "state")
    signing = {"commit.gpgSign": "true", "gpg.program": "/bin/false", "log.showSignature": "true"}
    fleet.environment["GIT_CONFIG_COUNT"] = str(len(signing))  # of the person who runs the tool
    for number, (key, value) in enumerate(signing.items()):
        fleet.environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    early = fleet.run("rollback", "--to", "v2.0.1")
    assert early.returncode == 6, early.stdout
    assert "it follows v2.0.10, which came after v2.0.1" in str(fleet.record("one")["rollback_error"])
    done = fleet.run("rollback", "--to", "v2.0.10")
    assert done.returncode == 0, done.stdout + done.stderr
    text = subprocess.run(
        ["git", "show", "template/revert-v2.0.10:.copier-answers.yml", "template/revert-v2.0.10:a.txt"],
        cwd=fleet.bare["one"], capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "_commit: v2.0.1\n" in text, way
    assert "first fix" in text
    assert BRANCH not in fleet.branches("one")
