"""Locks of children are renewed under their own constraints, where their code reaches nothing, as requests by waves."""

from __future__ import annotations

import json
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from fleetkit.children import FleetError
from fleetkit.lock import wish_of
from fleetkit.lockfiles import differences, pinned, why_no_lock
from fleetkit.requests import is_older, signed

from tests.sampling import sampled
from tests.updates.code_host import Repositories
from tests.updates.host_server import serve
from tests.updates.remotes import write_fleet
from tests.updates.small_fleet import Fleet
from tests.updates.small_locks import LOCK, LockFleet, add_package, files_of_a_child
from tests.updates.test_fleet_foreign import add

pytestmark = pytest.mark.needs("namespaces")  # locks are renewed in them
TOKEN = "canary-of-the-locks"
HOSTILE = f"""\
env; for process in /proc/[0-9]*; do tr '\\0' '\\n' <$process/environ; done 2>/dev/null
find / -name fleet.yml -not -path '/proc/*' 2>/dev/null
echo attacked >README.md; ln -sf /etc/passwd requirements-gpu.lock; mkfifo requirements-dev.lock
echo attacked >.git/hooks/pre-push; git commit -qam attacked
{LOCK.partition("pipefail")[2]}"""


def offer(folder: Path, *later: tuple[str, str, str]) -> Path:
    """Make the index with a web framework that has a weak starlette, then what came `later`; return the index."""
    index = folder / "index"
    for name, version, needs in (
        ("web", "1.0", "starlette<1"),
        ("starlette", "0.48.0", ""),
        ("maths", "1.0", ""),
        *later,
    ):
        add_package(index, name, version, needs)
    return index


FIXES = (("starlette", "0.49.1", ""), ("maths", "1.1", ""))


def in_branch(fleet: Fleet, name: str, branch: str, file: str = "requirements.lock") -> str:
    """Return a file of a branch of a child's remote."""
    command = ["git", "show", f"{branch}:{file}"]
    return subprocess.run(command, cwd=fleet.bare[name], check=True, capture_output=True, text=True).stdout


def lock_branches(fleet: Fleet, name: str) -> list[str]:
    """Return the branches that renew the locks of a child."""
    return sorted(branch for branch in fleet.branches(name) if branch.startswith("template/locks-"))


def test_a_fix_of_one_package_reaches_every_child_and_changes_nothing_else(tmp_path: Path) -> None:
    child = files_of_a_child(offer(tmp_path))
    held = child | {"constraints.txt": "starlette<0.49\n"}
    fleet = LockFleet(tmp_path, {"one": child, "held": held, "none": {"scripts/lock": LOCK}, "old": {"own.txt": "x\n"}})
    for package in FIXES:
        add_package(fleet.index, *package)
    before = fleet.branches("one")
    done = fleet.lock("--package", "starlette>=0.49.1")
    assert done.returncode == 6, done.stdout + done.stderr
    records = {name: fleet.lock_record(name) for name in fleet.bare}
    told = {name: record["outcome"] for name, record in records.items()}
    assert told == {"one": "clean", "held": "error", "none": "left out", "old": "left out"}, records
    assert records["one"]["changes"] == ["starlette 0.48.0 -> 0.49.1"], "more than the one package was renewed"
    assert records["one"]["title"] == "Renew the locks: starlette 0.48.0 -> 0.49.1"
    assert "scripts/lock: the packages do not fit the base image (" in str(records["held"]["message"])
    assert "no requirements*.lock" in str(records["none"]["message"])
    assert "no scripts/lock" in str(records["old"]["message"])
    assert fleet.branches("one") == before, "a plan pushed something"

    pushed = fleet.run("apply", "--locks", "--wave", "canary")
    assert pushed.returncode == 6, pushed.stdout + pushed.stderr
    [branch] = lock_branches(fleet, "one")
    assert fleet.branches("one")[branch] == records["one"]["commit"]
    lock = in_branch(fleet, "one", branch)
    assert "starlette==0.49.1" in lock
    assert "maths==1.0" in lock
    assert lock_branches(fleet, "held") == lock_branches(fleet, "none") == []
    assert json.loads((tmp_path / "state" / "locks" / "fleet.json").read_text())["counts"]["left out"] == 2
    suite = ET.parse(tmp_path / "state" / "locks" / "fleet.xml").getroot()
    assert (suite.get("failures"), suite.get("errors"), len(list(suite.iter("skipped")))) == ("0", "1", 2)


@pytest.mark.slow
def test_every_package_is_renewed_where_that_is_asked_for(tmp_path: Path) -> None:
    fleet = LockFleet(tmp_path, {"one": files_of_a_child(offer(tmp_path))})
    for package in FIXES:
        add_package(fleet.index, *package)
    assert fleet.lock().returncode == 0
    assert fleet.lock_record("one")["outcome"] == "up to date", "without a wish only what must change is changed"
    assert fleet.lock("--upgrade").returncode == 0
    changes = ["maths 1.0 -> 1.1", "starlette 0.48.0 -> 0.49.1"]
    assert fleet.lock_record("one")["changes"] == changes
    add_package(fleet.index, "maths", "1.2")
    assert fleet.lock("--upgrade").returncode == 0
    assert "maths 1.0 -> 1.2" in fleet.lock_record("one")["changes"], "a finished plan was kept, and the index went on"


def test_tests_of_the_child_judge_its_new_locks(tmp_path: Path) -> None:
    fleet = LockFleet(tmp_path, {"one": files_of_a_child(offer(tmp_path))})
    add_package(fleet.index, *FIXES[0])
    assert fleet.lock("--upgrade", "--test", "! grep -q starlette==0.49 requirements.lock").returncode == 5
    assert fleet.lock_record("one")["outcome"] == "test failed"
    assert fleet.run("apply", "--locks", "--wave", "canary").returncode == 5
    assert lock_branches(fleet, "one") == []


@pytest.mark.slow
def test_a_hostile_child_sees_no_token_and_changes_nothing_but_its_locks(tmp_path: Path) -> None:
    files = files_of_a_child(offer(tmp_path)) | {"scripts/lock": HOSTILE}
    fleet = LockFleet(tmp_path, {"one": files}, started=True)
    add_package(fleet.index, *FIXES[0])
    fleet.environment["FLEET_TOKEN"] = TOKEN
    rule = {"match": "https://example.com/", "kind": "github", "token_env": "FLEET_TOKEN"}
    write_fleet(tmp_path, fleet.waves, [rule])
    done = fleet.lock("--upgrade")
    record = fleet.lock_record("one")
    assert (done.returncode, record["outcome"]) == (0, "clean"), (done.stderr, record)
    assert [file["path"] for file in record["files"]] == ["requirements.lock"]  # type: ignore[index,attr-defined]
    words = (tmp_path / "state" / "locks" / "logs" / "one.log").read_text()
    assert "UV_OFFLINE=1" in words, "the script did not run"
    assert TOKEN not in words
    assert str(tmp_path / "fleet.yml") not in words
    refused = fleet.run("lock", "--test-env", "FLEET_TOKEN")
    assert (refused.returncode, "no child may see it" in refused.stderr) == (1, True)


def test_an_index_in_a_lock_is_refused(tmp_path: Path) -> None:
    script = LOCK + "sed -i '1i --index-url https://evil.example.com/simple' requirements.lock\n"
    fleet = LockFleet(tmp_path, {"one": files_of_a_child(offer(tmp_path)) | {"scripts/lock": script}})
    assert fleet.lock("--upgrade").returncode == 6
    assert "that is not a lock: '--index-url" in str(fleet.lock_record("one")["message"])


@pytest.mark.parametrize(
    "harm",
    sampled(
        [
            "rm requirements.lock",
            "ln -sf /etc/passwd requirements.lock",
            "head -c 9000000 /dev/zero | tr '\\0' '#' >requirements.lock",
            "printf '\\377' >requirements.lock",
        ],
        ["rm requirements.lock"],
    ),
)
def test_a_lock_that_is_none_any_more_is_not_up_to_date(harm: str, tmp_path: Path) -> None:
    fleet = LockFleet(tmp_path, {"one": files_of_a_child(offer(tmp_path)) | {"scripts/lock": f"{LOCK}{harm}\n"}})
    assert fleet.lock("--upgrade").returncode == 6
    assert "scripts/lock left requirements.lock as something else" in str(fleet.lock_record("one")["message"])


def test_a_renewal_takes_the_place_of_renewals_alone() -> None:
    renewal, update, revert = "template/locks-0123", "template/v2.0.0", "template/revert-v2.0.0"
    for branch, others in ((renewal, {"template/locks-4567"}), (update, {"template/v1.0.0"}), (revert, set())):
        every = {renewal, "template/locks-4567", update, "template/v1.0.0", revert, "template/revert-v1.0.0"}
        assert {other for other in every if is_older(signed("text", other), branch)} == others


@pytest.mark.release
@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_one_renewal_is_open_beside_the_update_and_a_newer_one_takes_its_place(tmp_path: Path, kind: str) -> None:
    fleet = LockFleet(tmp_path, {"one": files_of_a_child(offer(tmp_path))})
    with serve(kind) as server:
        rule = {"match": f"file://{tmp_path}/remotes/", "kind": kind, "api": server.address, "token_env": "FLEET_TOKEN"}
        write_fleet(tmp_path, fleet.waves, [rule])
        fleet.environment["FLEET_TOKEN"] = server.token
        fleet.plan()
        assert fleet.run("apply", "--wave", "canary").returncode == 0
        add_package(fleet.index, *FIXES[0])
        for _ in range(2):
            assert fleet.lock("--package", "starlette").returncode == 0
            assert fleet.run("apply", "--locks", "--wave", "canary").returncode == 0
        requests = server.requests["acme/one"]
        assert len(requests) == 2, "the same renewal was offered twice"
        assert requests[1]["title"] == "Renew the locks: starlette 0.48.0 -> 0.49.1"
        add_package(fleet.index, "starlette", "0.49.2")
        shutil.rmtree(tmp_path / "state")
        assert fleet.lock("--package", "starlette").returncode == 0
        assert fleet.run("apply", "--locks", "--wave", "canary").returncode == 0
        still = [str(request["state"]).startswith("open") for request in requests]
        assert still == [True, False, True], "an update stays, an older renewal goes"

        requests[2]["state"] = "closed"
        assert fleet.run("apply", "--locks", "--wave", "canary").returncode == 0
        assert len(requests) == 3, "a person closed it, and it came again"
        add_package(fleet.index, "starlette", "0.49.3")
        assert fleet.lock("--package", "starlette").returncode == 0
        assert fleet.run("apply", "--locks", "--wave", "canary").returncode == 0
        assert len(requests) == 4
        assert fleet.run("rollback", "--locks").returncode == 0
        assert [str(request["state"]).startswith("open") for request in requests] == [True, False, False, False]
        assert fleet.run("rollback", "--locks").returncode == 1, "nothing was there to take back"


@pytest.mark.slow
def test_waves_wait_until_the_locks_of_those_before_are_merged(tmp_path: Path) -> None:
    child = files_of_a_child(offer(tmp_path))
    fleet = LockFleet(tmp_path, {"one": child, "none": {"own.txt": "x\n"}, "two": child})
    write_fleet(tmp_path, {"one": "canary", "none": "canary", "two": "rest"})
    add_package(fleet.index, *FIXES[0])
    fleet.lock("--package", "starlette")
    refused = fleet.run("apply", "--locks", "--wave", "rest")
    assert (refused.returncode, "merged locks of starlette in 0 of 1" in refused.stderr) == (1, True), refused.stderr
    fleet.run("apply", "--locks", "--wave", "canary")
    [branch] = lock_branches(fleet, "one")
    work = tmp_path / "squash"
    subprocess.run(["git", "clone", "--quiet", str(fleet.bare["one"]), str(work)], check=True)
    (work / "requirements.lock").write_text(in_branch(fleet, "one", branch))
    for command in (["commit", "-qam", "Squashed"], ["push", "-q", "origin", "HEAD"]):
        subprocess.run(["git", *command], cwd=work, env=fleet.environment, check=True)
    done = fleet.run("apply", "--locks", "--wave", "rest")
    assert done.returncode == 0, done.stderr
    assert len(lock_branches(fleet, "two")) == 1

    back = fleet.run("rollback", "--locks")  # what was squashed under another title is known by the plan
    assert back.returncode == 0, back.stdout
    reverts = {name: any("revert-locks-" in branch for branch in fleet.branches(name)) for name in fleet.bare}
    assert reverts == {"one": True, "none": False, "two": False}
    assert lock_branches(fleet, "two") == []


def take_in(fleet: LockFleet, name: str, way: str) -> str:
    """Merge the renewal of a child as a person's host would; return the tree that it had before."""
    [branch] = lock_branches(fleet, name)
    host = Repositories(fleet.folder / "remotes", fleet.environment)
    before = host.git(f"acme/{name}", "rev-parse", "main^{tree}")
    title = host.git(f"acme/{name}", "log", "-1", "--format=%s", branch)
    host.merge(f"acme/{name}", branch, "main", way, title)
    host.git(f"acme/{name}", "branch", "-D", branch)
    return before


@pytest.mark.slow
@pytest.mark.parametrize("way", ["squash", "merge", "rebase"])
def test_a_merged_renewal_is_reverted_from_an_empty_folder(tmp_path: Path, way: str) -> None:
    fleet = LockFleet(tmp_path, {"one": files_of_a_child(offer(tmp_path))})
    add_package(fleet.index, *FIXES[0])
    fleet.lock("--package", "starlette")
    fleet.run("apply", "--locks", "--wave", "canary")
    before = take_in(fleet, "one", way)
    shutil.rmtree(tmp_path / "state")
    done = fleet.run("rollback", "--locks")
    assert done.returncode == 0, done.stdout + done.stderr
    [back] = [branch for branch in fleet.branches("one") if branch.startswith("template/revert-locks-")]
    host = Repositories(tmp_path / "remotes", fleet.environment)
    assert host.git("acme/one", "rev-parse", f"{back}^{{tree}}") == before, way

    host.merge("acme/one", back, "main", way, "Take the renewal of the locks back")
    again = fleet.run("rollback", "--locks")
    assert (again.returncode, "no child has an open or merged renewal" in again.stderr) == (1, True), (
        "a revert reverted"
    )


def test_locks_that_somebody_else_changed_are_not_reverted(tmp_path: Path) -> None:
    fleet = LockFleet(tmp_path, {"one": files_of_a_child(offer(tmp_path))})
    add_package(fleet.index, *FIXES[0])
    fleet.lock("--package", "starlette")
    fleet.run("apply", "--locks", "--wave", "canary")
    take_in(fleet, "one", "merge")
    work = tmp_path / "later"
    subprocess.run(["git", "clone", "--quiet", str(fleet.bare["one"]), str(work)], check=True)
    (work / "requirements.lock").write_text("# by hand\n")
    for command in (["commit", "-qam", "Newer packages"], ["push", "-q", "origin", "HEAD"]):
        subprocess.run(["git", *command], cwd=work, env=fleet.environment, check=True)
    assert fleet.run("rollback", "--locks").returncode == 1
    assert [branch for branch in fleet.branches("one") if "revert" in branch] == []


def test_an_ejected_runtime_is_named(tmp_path: Path) -> None:
    files = files_of_a_child(offer(tmp_path)) | {"src/gpu_repo_runtime/EJECTED": "{}\n"}
    fleet = LockFleet(tmp_path, {"one": files})
    assert fleet.lock().returncode == 0
    assert "has ejected the runtime" in str(fleet.lock_record("one")["message"])


@pytest.mark.parametrize(
    "text", ["--index-url=x", "a @ https://example.com/a.whl", "web[all]", "web; python_version>'3'", ""]
)
def test_a_wish_is_a_name_with_versions(text: str) -> None:
    with pytest.raises(FleetError, match="it needs a name, or a name with versions"):
        wish_of([text], upgrade=False)
    assert wish_of(["starlette >= 0.49.1, <1"], upgrade=False).options == ["--upgrade-package=starlette<1,>=0.49.1"]
    with pytest.raises(FleetError, match="take one of them"):
        wish_of(["web"], upgrade=True)


def test_what_locks_hold() -> None:
    digest = f"    --hash=sha256:{'0' * 64}"
    text = f"# by uv\nweb[all]==1.0 ; python_full_version < '3.12' \\\n{digest} \\\n{digest}\n"
    text += f"Web==2.0 \\\n{digest}\nown @ file:wheels/own-1-py3-none-any.whl \\\n{digest}\n"
    assert why_no_lock(text) == ""
    assert pinned([text]) == {"web": {"1.0", "2.0"}}
    for line in ("-r other.txt", "--extra-index-url https://x", "-e .", "https://x/y.whl", "    --config-settings=x"):
        assert why_no_lock(f"{text}{line}\n") == line
    assert differences({"a": "x==1\ny==1\n"}, {"a": "x==2\nz==1\n"}) == ["x 1 -> 2", "y 1 is gone", "z 1 is new"]


def in_bytes(fleet: Fleet, name: str, branch: str, file: str = "requirements.lock") -> bytes:
    """Return a file of a branch as it stands there."""
    command = ["git", "show", f"{branch}:{file}"]
    return subprocess.run(command, cwd=fleet.bare[name], check=True, capture_output=True).stdout


def rewrite(fleet: Fleet, name: str, change: Callable[[Path], object]) -> None:
    """Let the owner of a child change the work tree, and push it."""
    work = fleet.folder / "work" / name
    change(work)
    for step in (["add", "--all"], ["commit", "-qm", "Mine"], ["push", "-q", str(fleet.bare[name]), "HEAD:main"]):
        subprocess.run(["git", *step], cwd=work, env=fleet.environment, check=True)


def test_a_renewal_keeps_mode_and_line_ends_of_a_lock(tmp_path: Path) -> None:
    fleet = LockFleet(tmp_path, {name: files_of_a_child(offer(tmp_path)) for name in ("mode", "crlf", "smudged")})
    rewrite(fleet, "mode", lambda work: (work / "requirements.lock").chmod(0o755))

    def with_carriage_returns(work: Path) -> None:
        lock = work / "requirements.lock"
        lock.write_bytes(lock.read_bytes().replace(b"\n", b"\r\n"))

    rewrite(fleet, "crlf", with_carriage_returns)
    rewrite(fleet, "smudged", lambda work: (work / ".gitattributes").write_text("*.lock text eol=crlf\n"))
    assert fleet.lock().returncode == 0
    told = {name: fleet.lock_record(name)["outcome"] for name in fleet.bare}
    assert told == dict.fromkeys(fleet.bare, "up to date"), "a line end is no renewal"

    add_package(fleet.index, *FIXES[0])
    assert fleet.lock("--package", "starlette").returncode == 0
    assert fleet.run("apply", "--locks", "--wave", "canary").returncode == 0
    for name in fleet.bare:
        [branch] = lock_branches(fleet, name)
        text, before = in_bytes(fleet, name, branch), in_bytes(fleet, name, "main")
        assert b"starlette==0.49.1" in text
        assert (b"\r\n" in text) is (name == "crlf"), name
        assert text.count(b"\n") - text.count(b"\r\n") == (0 if name == "crlf" else before.count(b"\n"))
        listed = ["git", "ls-tree", branch, "requirements.lock"]
        mode = subprocess.run(listed, cwd=fleet.bare[name], check=True, capture_output=True, text=True).stdout[:6]
        assert mode == ("100755" if name == "mode" else "100644"), name


@pytest.mark.slow
def test_an_open_renewal_gives_no_room_to_an_update(tmp_path: Path) -> None:
    """The update takes the place of an older update, and a renewal stays open beside it."""
    fleet = LockFleet(tmp_path, {"one": files_of_a_child(offer(tmp_path))})
    add_package(fleet.index, *FIXES[0])
    fleet.lock("--package", "starlette")
    assert fleet.run("apply", "--locks", "--wave", "canary", "--max-open", "1").returncode == 0
    fleet.plan()
    assert fleet.run("apply", "--wave", "canary", "--max-open", "1").returncode == 0
    assert "template/v2.0.0" not in fleet.branches("one"), "two are open, and one may be"
    take_in(fleet, "one", "squash")
    assert fleet.run("apply", "--wave", "canary", "--max-open", "1").returncode in (0, 6)
    fleet.plan()
    assert fleet.run("apply", "--wave", "canary", "--max-open", "1").returncode == 0
    assert "template/v2.0.0" in fleet.branches("one")


def test_a_branch_of_the_owner_with_such_a_name_is_left_alone(tmp_path: Path) -> None:
    fleet = LockFleet(tmp_path, {"one": files_of_a_child(offer(tmp_path))})
    with serve("github") as server:
        rule = {"match": f"file://{tmp_path}/remotes/", "kind": "github", "api": server.address}
        write_fleet(tmp_path, fleet.waves, [rule | {"token_env": "FLEET_TOKEN"}])
        fleet.environment["FLEET_TOKEN"] = server.token
        subprocess.run(["git", "branch", "feature/locks-of-doors", "main"], cwd=fleet.bare["one"], check=True)
        theirs = add(server, "github", "Mine", "feature/locks-of-doors")
        assert fleet.run("rollback", "--locks").returncode == 1
        assert (theirs["state"], "feature/locks-of-doors" in fleet.branches("one")) == ("open", True)
