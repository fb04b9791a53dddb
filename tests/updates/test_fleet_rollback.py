"""A rollback takes back the update that brought a version, and nothing else, whatever a child's history is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.updates.copiers import ROOT, copier_at, run_program
from tests.updates.host_server import serve
from tests.updates.remotes import write_fleet
from tests.updates.small_fleet import Fleet
from tests.updates.test_fleet_foreign import add

BACK = "template/revert-v2.0.0"
SLOW = pytest.mark.slow
EMPTY = "no child has"


class Remote:
    """A child on a bare repository, whose history is written by hand, and the tool run on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.environment = folder, copier_at(folder / "home").environment()
        self.bare, self.work = folder / "one.git", folder / "work"
        self.git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))
        self.git(folder, "init", "--quiet", "--initial-branch=main", str(self.work))
        self.git(self.work, "remote", "add", "origin", str(self.bare))
        children = [{"url": f"file://{self.bare}", "wave": "canary"}]
        (folder / "fleet.yml").write_text(yaml.safe_dump({"children": children}))

    def git(self, place: Path, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=place, env=self.environment, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, files: dict[str, str | None], branch: str = "main") -> str:
        """Commit `files` on a branch of the remote (None deletes one) and return the commit."""
        for name, text in files.items():
            (self.work / name).unlink() if text is None else (self.work / name).write_text(text)
        self.git(self.work, "add", "--all")
        self.git(self.work, "commit", "--quiet", "--message=A change")
        self.git(self.work, "push", "--quiet", "origin", f"HEAD:{branch}")
        return self.git(self.work, "rev-parse", "HEAD")

    def follow(self, version: str, files: dict[str, str | None]) -> str:
        """Commit an update to `version`."""
        return self.commit({".copier-answers.yml": f"_commit: {version}\n_src_path: /none\n", **files})

    def rollback(self, version: str = "v2.0.0") -> subprocess.CompletedProcess[str]:
        """Take a version back, from an empty folder."""
        places = ["--fleet", str(self.folder / "fleet.yml"), "--state", str(self.folder / "state"), "--jobs", "1"]
        return run_program("fleet", [*places, "rollback", "--to", version], ROOT, self.environment)

    def files(self, branch: str) -> dict[str, str]:
        """Return the files of a branch; none where there is no such branch."""
        listed = self.git(self.bare, "for-each-ref", "--format=%(refname:short)").splitlines()
        if branch not in listed:
            return {}
        names = self.git(self.bare, "ls-tree", "-r", "--name-only", branch).splitlines()
        return {name: self.git(self.bare, "show", f"{branch}:{name}") for name in names}


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote(tmp_path)


def test_an_update_is_taken_back_and_what_its_owner_did_since_stays(remote: Remote) -> None:
    remote.follow("v1.0.0", {"a.txt": "1\n"})
    remote.follow("v2.0.0", {"a.txt": "2\n"})
    remote.commit({"own.txt": "own\n"})
    done = remote.rollback()
    assert done.returncode == 0, done.stdout + done.stderr
    back = remote.files(BACK)
    assert (back["a.txt"], back["own.txt"], "v1.0.0" in back[".copier-answers.yml"]) == ("1", "own", True)


def test_a_repository_that_started_with_a_version_is_not_emptied(remote: Remote) -> None:
    remote.follow("v2.0.0", {"a.txt": "2\n", "own.txt": "own\n"})
    remote.commit({"more.txt": "more\n"})
    done = remote.rollback()
    assert done.returncode != 0
    assert "no update brought v2.0.0" in done.stdout + done.stderr
    assert remote.files(BACK) == {}


def test_a_repository_that_joined_with_a_version_keeps_the_template(remote: Remote) -> None:
    remote.commit({"own.txt": "own\n"})
    remote.follow("v2.0.0", {"a.txt": "2\n"})
    done = remote.rollback()
    assert done.returncode != 0, done.stdout
    assert remote.files(BACK) == {}


def test_a_later_version_that_was_taken_back_does_not_return(remote: Remote) -> None:
    """The commit that took 3.0.0 back brought 2.0.0 too: reverting it would bring 3.0.0 again."""
    remote.follow("v1.0.0", {"a.txt": "1\n"})
    remote.follow("v2.0.0", {"a.txt": "2\n"})
    remote.follow("v3.0.0", {"a.txt": "3\n"})
    remote.follow("v2.0.0", {"a.txt": "2\n"})
    done = remote.rollback()
    assert done.returncode == 0, done.stdout + done.stderr
    assert remote.files(BACK)["a.txt"] == "1"


def test_a_version_is_meant_however_it_is_written(remote: Remote) -> None:
    remote.follow("v1.0.0", {"a.txt": "1\n"})
    remote.follow("v2.0.0", {"a.txt": "2\n"})
    done = remote.rollback("2.0.0")
    assert done.returncode == 0, done.stdout + done.stderr
    names = remote.git(remote.bare, "for-each-ref", "--format=%(refname:short)").splitlines()
    [branch] = [name for name in names if "revert" in name]
    assert remote.files(branch)["a.txt"] == "1"


def test_what_a_person_did_on_the_reverting_branch_stays(remote: Remote) -> None:
    remote.follow("v1.0.0", {"a.txt": "1\n"})
    remote.follow("v2.0.0", {"a.txt": "2\n"})
    assert remote.rollback().returncode == 0
    made = remote.git(remote.bare, "rev-parse", BACK)
    assert remote.rollback().returncode == 0
    assert remote.git(remote.bare, "rev-parse", BACK) == made, "the same is pushed once"
    remote.git(remote.work, "fetch", "--quiet", "origin")
    remote.git(remote.work, "checkout", "--quiet", "-B", "fix", f"origin/{BACK}")
    remote.commit({"fix.txt": "a person's\n"}, BACK)
    done = remote.rollback()
    assert done.returncode != 0, done.stdout
    assert "somebody else" in done.stdout + done.stderr
    assert remote.files(BACK)["fix.txt"] == "a person's"


def test_lines_that_were_changed_since_are_told(remote: Remote) -> None:
    remote.follow("v1.0.0", {"a.txt": "1\n"})
    remote.follow("v2.0.0", {"a.txt": "2\n"})
    remote.commit({"a.txt": "mine\n"})
    done = remote.rollback()
    record = json.loads((remote.folder / "state" / "children" / "one.json").read_text())
    assert (done.returncode, remote.files(BACK)) == (6, {}), done.stdout + done.stderr
    assert "a.txt" in record["rollback_error"], record


@pytest.mark.parametrize("name", ["v2.0.0", *(pytest.param(name, marks=SLOW) for name in ("2.0.0", "base", "HEAD"))])
def test_a_branch_of_the_owner_is_not_taken_for_the_update(remote: Remote, name: str) -> None:
    """A branch for the owner's own release of that number; one with a name that means something elsewhere."""
    remote.follow("v1.0.0", {"a.txt": "1\n"})
    remote.commit({"own.txt": "own\n"})
    remote.git(remote.bare, "update-ref", f"refs/heads/{name}", "main~1")
    theirs, project = remote.git(remote.bare, "rev-parse", f"refs/heads/{name}"), f"{remote.folder.name}/one"
    with serve("github") as server:
        remote.environment["FLEET_TOKEN"] = server.token
        rule = {"match": f"file://{remote.folder.parent}/", "kind": "github", "api": server.address}
        hosts = [rule | {"token_env": "FLEET_TOKEN"}]
        child = {"url": f"file://{remote.bare}", "wave": "canary"}
        (remote.folder / "fleet.yml").write_text(yaml.safe_dump({"children": [child], "hosts": hosts}))
        request = add(server, "github", "Mine", name, project=project)
        done = remote.rollback()
        asked = [path for method, path in server.calls if method != "GET"]
    assert (asked, request["state"]) == ([], "open"), done.stdout + done.stderr
    assert EMPTY in done.stderr, done.stdout + done.stderr
    assert remote.git(remote.bare, "rev-parse", f"refs/heads/{name}") == theirs


@pytest.mark.slow
def test_the_request_goes_into_the_default_branch_whatever_else_is_there(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"one": {}})
    for name in ("base", "HEAD"):
        command = ["git", "update-ref", f"refs/heads/{name}", "main~0"]
        subprocess.run(command, cwd=fleet.bare["one"], check=True, env=fleet.environment)
    with serve("github") as server:
        rule = {"match": f"file://{tmp_path}/remotes/", "kind": "github", "api": server.address}
        write_fleet(tmp_path, fleet.waves, [rule | {"token_env": "FLEET_TOKEN"}])
        fleet.environment["FLEET_TOKEN"] = server.token
        fleet.plan()
        done = fleet.run("apply", "--wave", "canary")
        assert done.returncode == 0, done.stdout + done.stderr
        assert server.requests["acme/one"][0]["base"]["ref"] == "main"
