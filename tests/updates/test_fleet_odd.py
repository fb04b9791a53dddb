"""One odd child or host stops no other: a worker that is killed, a child that hangs, drafts that are not offered."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from fleetkit import report
from fleetkit.answers import answers_in, version_in
from fleetkit.children import Child, FleetError, HostRule, same_place
from fleetkit.hosts import connect
from fleetkit.pool import in_processes, time_limit
from fleetkit.state import Record, State

from tests.updates.host_server import serve
from tests.updates.odd_children import BOMB
from tests.updates.small_fleet import Fleet

URL = "https://code.example.com/"


def work(child: Child) -> Record:
    if child.name.startswith("killer"):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"name": child.name, "outcome": "clean"}


@pytest.mark.parametrize("killers", [(0,), (3, 4, 5), (11,), ()])
def test_a_child_that_kills_its_worker_stops_no_other(killers: tuple[int, ...]) -> None:
    names = [f"killer{number}" if number in killers else f"c{number}" for number in range(12)]
    context = multiprocessing.get_context("fork")
    told = in_processes(
        lambda size: ProcessPoolExecutor(size, context), 2, work, [Child(name, "u") for name in names],
        lambda child: {"name": child.name, "outcome": "error"},
    )  # fmt: skip
    found = [(child.name, record["outcome"]) for child, record in told]
    assert sorted(found) == sorted((name, "error" if "killer" in name else "clean") for name in names)


def test_a_child_that_hangs_is_given_up() -> None:
    with pytest.raises(TimeoutError, match=r"did not end in 0\.05 s"), time_limit(0.05):
        time.sleep(30)
    with time_limit(0.05):
        pass
    time.sleep(0.1)


def test_where_drafts_are_not_offered_the_title_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_TOKEN", "secret")
    with serve("github") as server:
        host = connect(Child("one", f"{URL}acme/one.git"), HostRule(URL, "github", server.address, "FLEET_TOKEN"))
        text = '{"message": "Validation Failed: Draft pull requests are not supported in this repository."}'
        server.troubles = [None, None, (422, {}, text)]  # type: ignore[list-item]
        host.request("template/v2.0.0", "main", "Update", "text", True)
        [request] = server.requests["acme/one"]
        assert (request["title"], request["draft"]) == ("Do not merge yet: Update", False)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://code.example.com/acme/family.git", "git@code.example.com:acme/family.git", True),
        ("https://code.example.com/acme/family", "ssh://git@code.example.com:2222/acme/family.git", True),
        ("https://ada:token@code.example.com/acme/family/", "https://code.example.com/acme/family.git", True),
        ("file:///srv/family", "/srv/family", True),
        ("https://code.example.com/acme/family", "https://code.example.com/evil/family", False),
        ("https://code.example.com/acme/family", "https://evil.example.com/acme/family", False),
        ("https://code.example.com/acme/family", "/acme/family", False),
        ("https://code.example.com@evil.example.com/acme/family", "https://code.example.com/acme/family", False),
    ],
)
def test_the_template_is_known_by_ssh_and_https(one: str, other: str, same: bool) -> None:
    assert same_place(one, other) is same
    assert same_place(other, one) is same


WHOLE = "_commit: v1.0.0\n_src_path: /family\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "unfolds to more than 10000 values"),
        (BOMB + "_commit: *j\n", "unfolds to more than 10000 values"),
        (WHOLE + "own: &own [*own]\n", "unfolds to more than"),
        (WHOLE + "own: " + "[" * 5000 + "]" * 5000, "no answers that can be read"),
        (WHOLE + "own: " + "x" * (1 << 18), "has more than 262144 characters"),
        (WHOLE + "own: 2026-99-99\n", "no answers that can be read"),
        ("_commit: [v1.0.0]\n_src_path: /family\n", "lacks _commit"),
        ("[1, 2]", "lacks _commit"),
        ("", "lacks _commit"),
        (WHOLE + "own: \x1b[2J\n", "no answers that can be read"),
    ],
)
def test_answers_that_are_a_trap_are_one_line(text: str, words: str) -> None:
    with pytest.raises(FleetError, match=words) as error:
        answers_in(text)
    assert "\n" not in str(error.value)
    assert version_in(text) in ("", "v1.0.0")


def test_plain_answers_are_read_with_the_owners_keys() -> None:
    assert answers_in(WHOLE + "own: &a {b: [1, 2]}\nmore: *a\n")["more"] == {"b": [1, 2]}
    assert (version_in(WHOLE), version_in(b"_commit: v2.0.0\n")) == ("v1.0.0", "v2.0.0")


EVIL = "caf\u00e9 \x1b[2J\x00\u202e\udcff\ufffe"


def test_letters_that_no_file_holds_cost_no_report(tmp_path: Path) -> None:
    """JUnit, JSON and the page are written, and another program can read them."""
    state, about = State(tmp_path / "state"), {"wave": "rest", "owner": EVIL, "from": "v1.0.0", "to": "v2.0.0"}
    files = [{"path": f"a{EVIL}.txt", "kind": "conflict", "note": ""}]
    for name, outcome in (("bad", "error"), ("held", "conflict"), ("good", "clean")):
        record = {"name": name, "outcome": outcome, "files": files if name == "held" else []} | about
        state.write(name, record | {"message": f"it follows {EVIL}" if name == "bad" else ""})
    report.write(state, [state.read(name) for name in ("bad", "held", "good")], tmp_path, "Fleet")
    suite = ET.parse(tmp_path / "fleet.xml").getroot()
    assert [case.get("name") for case in suite] == ["bad", "held", "good"]
    assert "caf\u00e9 \ufffd[2J" in str(suite[0][0].get("message"))
    for place in ("fleet.json", "fleet.html"):
        assert "\\u001b" not in (tmp_path / place).read_text(encoding="utf-8"), place


def test_a_child_with_such_letters_stops_neither_plan_nor_status(tmp_path: Path) -> None:
    """Its file names, its answers, and what is printed of them."""
    odd = {"own\x1b[2J\udcff.txt": "x\n", ".copier-answers.yml": '_commit: v1.0.0\n_src_path: "/\\e[2J\\u202e"\n'}
    fleet = Fleet(tmp_path, {"one": {}, "odd": {**odd}, "bomb": {".copier-answers.yml": BOMB}})
    done = [fleet.plan(), fleet.run("status"), fleet.run("report")]
    assert [run.returncode for run in done] == [6, 6, 6], done[0].stderr
    assert not [letter for run in done for letter in run.stdout + run.stderr if letter in "\x1b\u202e\udcff"]
    assert {name: fleet.record(name)["outcome"] for name in fleet.bare} == {
        "one": "clean",
        "odd": "error",
        "bomb": "error",
    }
    assert "unfolds to more than" in str(fleet.record("bomb")["message"])
    ET.parse(tmp_path / "state" / "fleet.xml")


def test_a_record_that_is_not_whole_stops_nothing(tmp_path: Path) -> None:
    """A disk that was full, a hand: what was done is found again on the remotes."""
    fleet = Fleet(tmp_path, {"one": {}, "two": {}})
    assert fleet.plan().returncode == 0
    for name, text in {"one": '{"name": "one", "outc', "two": "[]"}.items():
        (tmp_path / "state" / "children" / f"{name}.json").write_text(text)
    assert fleet.plan().returncode == 0
    (tmp_path / "state" / "plan.json").write_text("")
    refused = fleet.run("apply", "--wave", "canary")
    assert (refused.returncode, "there is no finished plan" in refused.stderr) == (1, True)


@pytest.mark.slow
def test_a_child_without_room_for_its_record_stops_no_other(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"one": {}, "two": {}})
    (tmp_path / "state" / "children" / "one.json").mkdir(parents=True)
    assert fleet.plan().returncode == 6
    assert fleet.record("two")["outcome"] == "clean"
