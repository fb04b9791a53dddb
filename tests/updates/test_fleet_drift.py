"""The page of drift: what it tells of each child, that children's text stays text, and that it sorts in Chromium."""

from __future__ import annotations

import html
import json
import re
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fleetkit import drift_page
from fleetkit.advisories import Advisories, Weakness, load_advisories
from fleetkit.children import FleetError
from fleetkit.drift import image_end
from fleetkit.state import Record

from tests.updates.browser import opened, printed
from tests.updates.host_server import serve
from tests.updates.remotes import write_fleet
from tests.updates.small_fleet import Fleet

EVIL = '</td><script>alert(1)</script>\x1b[2J\u202egpj.exe\x00 & "quoted" | `code`'
LOCK = "starlette==0.48.0 \\\n    --hash=sha256:" + "0" * 64 + "\nmaths==1.0\n"
FIX = {"id": "GHSA-1", "aliases": ["CVE-2026-1"], "summary": "Reads without end", "modified": "2026-10-01T00:00:00Z"}


def advisory(about: dict[str, Any], package: str, *events: dict[str, str], **more: Any) -> dict[str, Any]:
    """Return an advisory in the format of OSV for one package and one range."""
    ranges = [{"type": "ECOSYSTEM", "events": list(events)}] if events else []
    return about | {"affected": [{"package": {"ecosystem": "PyPI", "name": package}, "ranges": ranges} | more]}


SAME = FIX | {"id": "PYSEC-1", "summary": "", "database_specific": {"severity": "HIGH"}}
KNOWN = [
    advisory(FIX, "Starlette", {"introduced": "0"}, {"fixed": "0.49.1"}),
    advisory(SAME, "starlette", {"introduced": "0.39.0"}, {"fixed": "0.49.2"}),
    advisory({"id": "OLD"}, "starlette", {"introduced": "0"}, {"fixed": "0.40"}, {"introduced": "0.50"}),
    advisory({"id": "TAKEN", "withdrawn": "2026-01-01T00:00:00Z"}, "starlette", {"introduced": "0"}),
]


def write_advisories(folder: Path, advisories: list[dict[str, Any]]) -> Path:
    """Write advisories as the folder of a database."""
    folder.mkdir()
    for number, told in enumerate(advisories):
        (folder / f"{number}.json").write_text(json.dumps(told))
    return folder


def test_each_child_is_told_with_age_image_weaknesses_and_requests(tmp_path: Path) -> None:
    files = {"requirements.lock": LOCK, "Dockerfile": "ARG BASE_IMAGE=registry.example.com/ml/torch-cu12:2026.11\n"}
    fleet = Fleet(tmp_path, {"one": files, "broken": {".copier-answers.yml": EVIL.replace("\x00", "")}})
    with serve("github") as server:
        rule = {"match": f"file://{tmp_path}/remotes/", "kind": "github", "api": server.address}
        write_fleet(tmp_path, fleet.waves, [rule | {"token_env": "FLEET_TOKEN"}])
        fleet.environment["FLEET_TOKEN"] = server.token
        fleet.plan()
        fleet.run("apply", "--wave", "canary")
        opened = server.requests["acme/one"][0]
        opened |= {"title": EVIL, "created_at": f"{datetime.now(UTC) - timedelta(days=20):%Y-%m-%dT%H:%M:%SZ}"}
        known = write_advisories(tmp_path / "osv", KNOWN)
        done = fleet.run("drift", "--advisories", str(known))
    assert done.returncode == 6, done.stdout + done.stderr
    told = json.loads((tmp_path / "state" / "drift.json").read_text())
    one, broken = told["children"]
    assert (one["version"], one["behind"], one["age_days"], one["owner"]) == ("v1.0.0", 1, 0, "team")
    assert (one["image"], one["image_state"], one["end_of_life"]) == ("torch-cu12", "maintenance", "2027-03-31")
    [weak] = one["weaknesses"]
    names = ["CVE-2026-1", "GHSA-1", "PYSEC-1"]
    assert (weak["names"], weak["version"], weak["fixed"], weak["severity"]) == (names, "0.48.0", "0.49.2", "high")
    assert [request["days"] for request in one["requests"]] == [20]
    assert "no answers that can be read" in broken["error"]
    page = (tmp_path / "state" / "drift.html").read_text()
    assert "fixed in 0.49.2" in page
    for text in (page, (tmp_path / "state" / "drift.md").read_text(), done.stdout):
        assert not re.search("[\x00\x1b\u202e]|<script>alert", text), "the text of a child is more than text"
    assert "starlette 0.48.0 (CVE-2026-1)" in (tmp_path / "state" / "drift.md").read_text()


@pytest.mark.slow
def test_a_lock_that_is_not_fetched_is_told_and_not_taken_for_sound(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"one": {"requirements.lock": LOCK + "# long\n" * (1 << 18)}, "two": {}})
    done = fleet.run("drift", "--json", "--advisories", str(write_advisories(tmp_path / "osv", KNOWN)))
    one, two = json.loads(done.stdout)["children"]
    assert (one["error"], "weaknesses" in one) == (
        "a lock of it cannot be read, so its packages were not looked up",
        False,
    )
    assert two["weaknesses"] == []


def test_without_advisories_the_page_says_so(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"one": {"requirements.lock": LOCK}})
    done = fleet.run("drift", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["advisories"], "weaknesses" in told["children"][0]) == (None, False)
    page = (tmp_path / "state" / "drift.html").read_text()
    assert "no advisories were given" in page
    assert "none known" not in page, "not looked for is not the same as none"
    assert "not looked for" in page


@pytest.mark.parametrize(
    ("version", "affected", "fixed"),
    [
        ("1.0", advisory({}, "p", {"introduced": "0"}, {"fixed": "1.1"}), "1.1"),
        ("1.1", advisory({}, "p", {"introduced": "0"}, {"fixed": "1.1"}), None),
        ("1.10", advisory({}, "p", {"introduced": "1.9"}, {"fixed": "1.11"}), "1.11"),
        ("2.5", advisory({}, "p", {"introduced": "2"}, {"fixed": "2.6"}, {"introduced": "3"}, {"fixed": "3.1"}), "2.6"),
        ("2.7", advisory({}, "p", {"introduced": "2"}, {"fixed": "2.6"}, {"introduced": "3"}, {"fixed": "3.1"}), None),
        ("1.0", advisory({}, "p", {"introduced": "0"}, {"last_affected": "1.0"}), ""),
        ("1.0.1", advisory({}, "p", {"introduced": "0"}, {"last_affected": "1.0"}), None),
        ("1.0", advisory({}, "p", versions=["1.0.0"]), ""),
        ("1.2", advisory({}, "p", {"introduced": "0"}, {"limit": "1.1"}), None),
        ("1.0rc1", advisory({}, "p", {"introduced": "0"}, {"fixed": "1.0"}), "1.0"),
        ("no version", advisory({}, "p", {"introduced": "0"}), None),
    ],
)
def test_a_version_is_judged_as_the_schema_says(version: str, affected: dict[str, Any], fixed: str | None) -> None:
    known = Advisories()
    known.add(json.dumps(affected | {"id": "X"}).encode())
    expected = [] if fixed is None else [Weakness(("X",), "p", version, fixed, "", "")]
    assert known.of("P", version) == expected


def test_advisories_come_as_folder_or_zip_and_a_broken_one_is_counted(tmp_path: Path) -> None:
    place = tmp_path / "all.zip"
    with zipfile.ZipFile(place, "w") as made:
        for number, told in enumerate(KNOWN):
            made.writestr(f"{number}.json", json.dumps(told))
        for number, text in enumerate(("[" * 100_000, "{}", '{"affected": 1}', "\x00")):
            made.writestr(f"broken{number}.json", text)
    known = load_advisories(place)
    assert (known.count, known.unread, known.newest[:10]) == (4, 4, "2026-10-01")
    assert len(known.of("starlette", "0.48.0")) == 1
    for wrong, words in ((tmp_path / "none", "cannot be read"), (write_advisories(tmp_path / "no", []), "no advisory")):
        with pytest.raises(FleetError, match=words):
            load_advisories(wrong)


def test_the_end_of_an_image_is_counted_in_days() -> None:
    rows = {"images": [{"name": "old", "end_of_life": "2026-11-01"}, {"name": "bare"}]}
    today = datetime(2026, 11, 23, tzinfo=UTC).date()
    assert image_end("old", rows, today) == {"end_of_life": "2026-11-01", "image_days": -22}
    assert image_end("bare", rows, today) == image_end("own", rows, today) == {}
    words = {"image_state": "maintenance", "image_days": -22, "end_of_life": "2026-11-01"}
    assert drift_page.image_of(words) == ("ended 2026-11-01", "over")
    assert drift_page.image_of(words | {"image_days": 20})[1] == "soon"


def child(name: str, version: str, behind: int, **more: Any) -> Record:
    """Return what is known of one child."""
    image = {"image": "torch-cu13", "image_state": "supported", "end_of_life": "2028-06-30", "image_days": 585}
    return {"name": name, "owner": "team-a", "wave": "rest", "version": version, "behind": behind} | image | more


def write_page(folder: Path) -> Path:
    """Write the page of a made-up fleet."""
    weak = {"names": ["CVE-2026-48710", "GHSA-7f5h"], "package": "starlette", "version": "0.48.0", "fixed": "0.49.1"}
    weak |= {"summary": "A multipart form is read without an end", "severity": "high"}
    unfixed = {"names": ["PYSEC-2026-9"], "package": "maths", "version": "1.0", "fixed": "", "summary": EVIL}
    waits = {"title": "Update the template to v0.10.0", "address": "https://example.com/1", "draft": False, "days": 21}
    bad = {"title": EVIL, "address": "javascript:alert(1)", "draft": True, "days": None}
    old = {"image": "torch-cu12", "image_state": "maintenance", "end_of_life": "2026-10-31", "image_days": -23}
    records = [
        child("topic-finder", "v0.10.0", 0, age_days=3, weaknesses=[], wave="canary", owner="ada"),
        child("ranker", "v0.9.0", 1, age_days=45, weaknesses=[weak], requests=[waits]),
        child("summaries", "v0.2.0", 7, age_days=400, weaknesses=[weak, unfixed | {"severity": ""}], **old),
        child("embedder", "v0.9.0", 1, age_days=45, weaknesses=[], requests=[bad], owner=EVIL),
        {"name": "spam-filter", "owner": "team-b", "wave": "early", "error": "fatal: could not read from remote"},
        {"name": "old-one", "owner": "", "wave": "rest", "paused": True},
    ]
    asked = {"advisories": 18344, "unread": 2, "newest": "2026-11-20T10:00:00Z"}
    drift_page.write({"made": "2026-11-23T09:00:00+00:00", "advisories": asked, "children": records}, folder)
    return folder / "drift.html"


def names(document: str) -> list[str]:
    """Return the children in their order."""
    return re.findall(r'<tr>\n<td data-key="([^"]+)"', document)


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_page_sorts_by_any_column(tmp_path: Path) -> None:
    page = write_page(tmp_path)
    first = ["spam-filter", "summaries", "ranker", "embedder", "topic-finder", "old-one"]
    assert names(page.read_text()) == first, "without a script, the worst comes first"
    assert names(opened(page, "sort=-3"))[0] == "summaries", "the most releases behind"
    by_version = [name for name in names(opened(page, "sort=2")) if name not in ("spam-filter", "old-one")]
    assert by_version == ["summaries", "ranker", "embedder", "topic-finder"], "0.10 is newer than 0.9"


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_page_is_printed_whole_on_landscape_paper(tmp_path: Path) -> None:
    count, at = 60, "https://example.com/acme"
    asked = {"title": "Update the template to v0.10.0", "draft": False, "days": 21}
    records = [
        child(f"child-{n}", "v0.9.0", 1, age_days=45, requests=[asked | {"address": f"{at}/{n}"}]) for n in range(count)
    ]
    data = {"made": "2026-11-23T09:00:00+00:00", "advisories": None, "children": records}
    drift_page.write(data, tmp_path)
    paper = printed(tmp_path / "drift.html")
    width, height = (int(number) for number in re.findall(rb"/MediaBox \[0 0 (\d+) (\d+)\]", paper)[0])
    assert width > height
    links = re.findall(rb"/URI \(([^)]*)\)", paper)
    assert sorted(links) == sorted(f"{at}/{n}".encode() for n in range(count)), "a child is not on the paper"


def test_page_needs_nothing_from_elsewhere_and_text_of_children_stays_text(tmp_path: Path) -> None:
    page = write_page(tmp_path).read_text()
    assert re.findall(r"""(?:src|href)=["']([^"']*)""", page) == ["https://example.com/1"], "a link that runs or loads"
    assert "@import" not in page
    assert html.escape("</td><script>alert(1)</script>") in page
    assert len(re.findall("<script", page)) == 1
    assert not re.search("[\x00\x1b\u202e]", page)
    table = (tmp_path / "drift.md").read_text().splitlines()[4:]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {9}, "a text of a child makes a column"
