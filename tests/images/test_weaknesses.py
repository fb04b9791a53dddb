"""Known weaknesses by databases that are made up here: what is found, what stops a release, what is let pass."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import zipfile
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from image_tools import check
from image_tools.catalog import ImageError, find_row
from image_tools.weaknesses import audit, gate, severity
from image_tools.weaknesses.databases import Databases, places_in, read_databases
from image_tools.weaknesses.packages import Package, of_bill, of_lock
from image_tools.weaknesses.versions import debian

from .conftest import CATALOG, ROOT

TODAY = date(2026, 11, 23)
WORST = "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"
NUMPY = Package("PyPI", "numpy", "2.4.0")
OPENSSL = Package("Debian", "openssl", "3.5.1-1", "13")


def days_ago(days: int) -> str:
    """Return a moment as advisories tell it."""
    return f"{TODAY - timedelta(days=days)}T08:00:00Z"


def advisory(name: str = "GHSA-1", **more: Any) -> dict[str, Any]:
    """Return an advisory on NumPy before 2.4.1, critical and old; whatever is given stands in its place."""
    affected = {
        "package": {"ecosystem": more.pop("ecosystem", "PyPI"), "name": more.pop("package", "numpy")},
        "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, *more.pop("events", [{"fixed": "2.4.1"}])]}],
    }
    about = {"id": name, "published": days_ago(30), "database_specific": {"severity": "CRITICAL"}}
    return {key: value for key, value in (about | {"affected": [affected]} | more).items() if value is not None}


def state(**more: Any) -> dict[str, Any]:
    """Return what Debian's tracker says of one weakness of OpenSSL in trixie."""
    told = {"status": "resolved", "fixed_version": "3.5.1-1+deb13u1", "urgency": "high"} | more
    return {"openssl": {"CVE-2026-7": {"description": "Reads too far", "releases": {"trixie": told}}}}


def databases(folder: Path, *advisories: dict[str, Any], tracker: dict[str, Any] | None = None) -> Databases:
    """Return what is read from databases with these entries: a folder of OSV and the tracker's file."""
    osv = folder / "osv"
    osv.mkdir()
    for number, told in enumerate(advisories):
        (osv / f"{number}.json").write_text(json.dumps(told))
    (folder / "tracker.json").write_text(json.dumps(tracker))
    given = ([osv] if advisories else []) + ([folder / "tracker.json"] if tracker else [])
    return read_databases(given)


def found(known: Databases, *packages: Package, allowed: list[dict[str, Any]] | None = None) -> list[gate.Finding]:
    """Return what is found of some packages of one place, under a catalogue that allows what is given."""
    catalog = CATALOG | {"weaknesses": {"grace_days": 7, "allowed": allowed or []}}
    return gate.findings(catalog, known, {"here": set(packages)}, TODAY)


@pytest.mark.parametrize(
    ("changes", "stops", "words"),
    [
        ({}, True, "fixed in 2.4.1, published 30 days ago"),
        ({"published": days_ago(8)}, True, "published 8 days ago"),
        ({"published": days_ago(7)}, False, "published 7 days ago, allowed for 7"),
        ({"published": None}, True, "publication date unknown"),
        ({"published": days_ago(-40)}, True, "publication date unknown"),
        ({"events": []}, False, "no fixed version yet"),
        ({"events": [{"last_affected": "2.4.0"}]}, False, "no fixed version yet"),
        ({"database_specific": {"severity": "HIGH"}}, False, "fixed in 2.4.1"),
        ({"database_specific": {"severity": "MODERATE"}}, False, "(medium)"),
        ({"database_specific": None}, True, "severity unknown"),
        ({"database_specific": None, "severity": [{"type": "CVSS_V3", "score": WORST}]}, True, "(critical)"),
        (
            {"database_specific": None, "severity": [{"type": "CVSS_V3", "score": WORST.replace("H/A:H", "N/A:N")}]},
            False,
            "(high)",
        ),
        ({"database_specific": None, "severity": [{"type": "CVSS_V3", "score": "CVSS:3.1/nonsense"}]}, True, "unknown"),
    ],
)
def test_a_critical_one_that_can_be_fixed_has_seven_days(
    changes: dict[str, Any], stops: bool, words: str, tmp_path: Path
) -> None:
    """What nobody rates or dates counts as bad and old: a gate that does not know stays shut."""
    [one] = found(databases(tmp_path, advisory(**changes)), NUMPY)
    assert bool(one.stops) is stops, one.line()
    assert words in one.line()


@pytest.mark.parametrize(
    ("changes", "stops", "words"),
    [
        ({}, True, "fixed in 3.5.1-1+deb13u1, publication date unknown"),
        ({"urgency": "not yet assigned"}, True, "severity unknown"),
        ({"urgency": "medium**"}, False, "(medium)"),
        ({"urgency": "not yet assigned", "nodsa": "Minor issue"}, False, "(low)"),
        ({"status": "open", "fixed_version": None}, False, "no fixed version yet"),
        ({"status": "undetermined", "urgency": "not yet assigned"}, False, "no fixed version yet"),
        ({"urgency": "unimportant"}, None, ""),
        ({"fixed_version": "0"}, None, ""),
        ({"fixed_version": "3.5.1-1"}, None, ""),
    ],
)
def test_debians_tracker_is_read_as_debian_means_it(
    changes: dict[str, Any], stops: bool | None, words: str, tmp_path: Path
) -> None:
    known = found(databases(tmp_path, tracker=state(**changes)), OPENSSL)
    if stops is None:
        assert known == []
        return
    assert bool(known[0].stops) is stops, known[0].line()
    assert words in known[0].line()


def test_another_release_of_debian_has_weaknesses_of_its_own(tmp_path: Path) -> None:
    known = databases(tmp_path, tracker=state())
    assert len(found(known, OPENSSL)) == 1
    assert found(known, Package("Debian", "openssl", "3.5.1-1", "12")) == []


def test_the_trackers_entries_get_day_and_score_from_advisories(tmp_path: Path) -> None:
    """The tracker has neither; advisories of any ecosystem that name the same weakness do."""
    young = advisory("DEBIAN-CVE-2026-7", upstream=["CVE-2026-7"], published=days_ago(2), package="other")
    mild = advisory("GHSA-2", aliases=["CVE-2026-7"], published=days_ago(1), database_specific={"severity": "LOW"})
    unrated = state(urgency="not yet assigned")
    [one] = found(databases(tmp_path, young, mild, tracker=unrated), OPENSSL)
    assert (one.weakness.severity, one.weakness.published, one.stops) == ("critical", days_ago(2), "")


def test_advisories_on_debian_and_the_tracker_are_one_weakness(tmp_path: Path) -> None:
    told = advisory("DEBIAN-CVE-2026-7", upstream=["CVE-2026-7"], ecosystem="Debian:13", package="openssl")
    told["affected"][0]["ranges"][0]["events"] = [{"introduced": "0"}, {"fixed": "3.5.1-1+deb13u2"}]
    other = json.loads(json.dumps(told).replace("Debian:13", "Debian:12").replace("CVE-2026-7", "CVE-2026-8"))
    [one] = found(databases(tmp_path, told, other, tracker=state()), OPENSSL)
    assert one.weakness.names == ("CVE-2026-7", "DEBIAN-CVE-2026-7")
    assert one.weakness.fixed == "3.5.1-1+deb13u2", "only the last fix is without it by every word"


def allow(**more: Any) -> dict[str, Any]:
    """Return an entry of what is allowed."""
    return {"id": "CVE-1", "package": "NumPy", "reason": "only on Windows", "until": "2026-12-31"} | more


@pytest.mark.parametrize(
    ("entry", "stops", "words"),
    [
        (allow(), False, "allowed until 2026-12-31: only on Windows"),
        (allow(until=TODAY), False, "allowed until 2026-11-23"),
        (allow(until="2026-11-22"), True, "the exception expired on 2026-11-22"),
        (allow(package="scipy"), True, "BLOCKS"),
        (allow(id="CVE-2"), True, "BLOCKS"),
    ],
)
def test_what_is_allowed_has_a_reason_and_an_end(
    entry: dict[str, Any], stops: bool, words: str, tmp_path: Path
) -> None:
    [one] = found(databases(tmp_path, advisory(aliases=["CVE-1"])), NUMPY, allowed=[entry])
    assert bool(one.stops) is stops
    assert words in one.line()


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (allow(reason=" "), "entry 1: reason is empty"),
        (allow(until="soon"), "entry 1: until is 'soon', expected YYYY-MM-DD"),
        ({"id": "CVE-1", "package": "numpy"}, "entry 1: expected id, package, reason, until"),
    ],
)
def test_nobody_is_let_pass_without_reason_and_end(told: dict[str, Any], words: str) -> None:
    catalog = CATALOG | {"weaknesses": {"grace_days": 7, "allowed": [told]}}
    with pytest.raises(ImageError, match=words):
        check.check_rows(catalog, [])
    with pytest.raises(ImageError, match=words):
        gate.settings(catalog)


def test_what_is_allowed_and_not_needed_is_told() -> None:
    catalog = CATALOG | {"weaknesses": {"grace_days": 7, "allowed": [allow()]}}
    [line] = gate.unused(catalog, [])
    assert line == "CVE-1 in NumPy is allowed until 2026-12-31, but was not found: remove the entry"


ORDERED = [
    "0~~", "0~", "0", "1.0~rc1", "1.0", "1.0-0.1", "1.0-1~deb13u1", "1.0-1", "1.0-1+b1", "1.0-1+deb13u1", "1.0-2",
    "1.0-10", "1.0a-1", "1.0+b1", "1.0.1-1", "1.2-3", "1:0.1-1", "2:0",
]  # fmt: skip


def test_debians_versions_are_ordered_as_dpkg_orders_them() -> None:
    """The table is what `dpkg --compare-versions` says."""
    assert sorted(reversed(ORDERED), key=debian) == ORDERED
    assert debian("1.0") == debian("1.0-0")
    assert debian("not a version") is None


@pytest.mark.parametrize(
    ("word", "expected"), [("Moderate", "medium"), ("CRITICAL", "critical"), ("", ""), ("unheard of", ""), (None, "")]
)
def test_words_of_databases_are_brought_together(word: str | None, expected: str) -> None:
    assert severity.normal(word) == expected


def entry(name: str, url: str) -> dict[str, Any]:
    """Return one package of a list as syft writes it."""
    return {"name": name, "externalRefs": [{"referenceType": "purl", "referenceLocator": url}]}


def bill(path: Path) -> Path:
    """Write the list of an image with NumPy, OpenSSL and Bash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    debian_13 = "?arch=amd64&distro=debian-13"
    packages = [
        entry("libssl3t64", f"pkg:deb/debian/libssl3t64@3.5.1-1%2Bb1{debian_13}&upstream=openssl%403.5.1-1"),
        entry("bind9-host", f"pkg:deb/debian/bind9-host@1:9.20.11-1{debian_13}&upstream=bind9"),
        entry("numpy", "pkg:pypi/numpy@2.4.0"),
        {"name": "the image"},
    ]
    path.write_text(json.dumps({"packages": packages}))
    return path


def test_weaknesses_of_debian_are_told_of_source_packages(tmp_path: Path) -> None:
    assert of_bill(bill(tmp_path / "a.json")) == {OPENSSL, NUMPY, Package("Debian", "bind9", "1:9.20.11-1", "13")}
    assert OPENSSL.release == "trixie"
    (tmp_path / "empty.json").write_text('{"packages": []}')
    with pytest.raises(ImageError, match="contains no package URL"):
        of_bill(tmp_path / "empty.json")


def test_locks_are_read_with_markers_and_extras(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    lock.write_text(
        f'numpy==2.4.0 ; python_version < "3.12" \\\n    --hash=sha256:{"0" * 64}\nuvicorn[standard]==1.0\n'
    )
    assert of_lock(lock) == {NUMPY, Package("PyPI", "uvicorn", "1.0")}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "it is not JSON"),
        ("[]", "are not OSV advisories"),
        ("{}", "are not OSV advisories"),
        (None, "cannot read"),
    ],
)
def test_a_database_that_is_half_there_is_refused(text: str | None, words: str, tmp_path: Path) -> None:
    """It would find half, and look as if nothing were known."""
    place = tmp_path / "osv"
    place.mkdir()
    (place / "1.json").write_text(json.dumps(advisory()))
    if text is not None:
        (place / "2.json").write_text(text)
    with pytest.raises(ImageError, match=words) as error:
        read_databases([place] if text is not None else [tmp_path / "missing"])
    assert len(str(error.value).splitlines()) == 1


def test_places_are_one_path_or_several(tmp_path: Path) -> None:
    spaced = tmp_path / "with space"
    spaced.mkdir()
    assert places_in(str(spaced)) == [spaced]
    assert places_in(f"a.zip '{spaced}'") == [Path("a.zip"), spaced]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place without lists of packages, where what `make sbom` writes is looked for."""
    monkeypatch.setattr(audit, "BUILD", tmp_path / "build")
    monkeypatch.setattr(audit, "RECORD", tmp_path / "released.json")
    return tmp_path


def audited(given: Path, capsys: pytest.CaptureFixture[str], places: str) -> tuple[int, str]:
    """Audit one row and its list; return the exit code and everything that was said."""
    code = audit.run(CATALOG, ["plain-cu13"], [], places)
    said = capsys.readouterr()
    return code, said.out + said.err


def test_the_audit_says_what_it_did_not_look_at(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    databases(elsewhere, advisory(), tracker=state(status="open"))
    osv, both = str(elsewhere / "osv"), f"{elsewhere / 'osv'} {elsewhere / 'tracker.json'}"
    code, said = audited(elsewhere, capsys, osv)
    assert (code, "operating system packages were not checked: none" in said) == (0, True)
    code, said = audited(elsewhere, capsys, both)
    assert (code, "make sbom IMAGE=plain-cu13" in said) == (3, True)
    bill(elsewhere / "build" / "sbom" / "plain-cu13.spdx.json")
    code, said = audited(elsewhere, capsys, both)
    assert (code, "numpy 2.4.0: GHSA-1 (critical), BLOCKS" in said) == (1, True)


def test_a_release_needs_databases_of_both_kinds_and_nothing_that_stops_it(tmp_path: Path) -> None:
    made = bill(tmp_path / "plain-cu13.spdx.json")
    databases(tmp_path, advisory(events=[{"fixed": "2.3"}]), tracker=state())
    with pytest.raises(ImageError, match="does not cover Debian; no tag was set"):
        audit.check_bill(CATALOG, made, str(tmp_path / "osv"))
    with pytest.raises(ImageError, match=r"known weaknesses block the release; no tag was set: openssl 3.5.1-1"):
        audit.check_bill(CATALOG, made, f"{tmp_path / 'osv'} {tmp_path / 'tracker.json'}")
    (tmp_path / "tracker.json").write_text(json.dumps(state(status="open")))
    assert len(audit.check_bill(CATALOG, made, f"{tmp_path / 'osv'} {tmp_path / 'tracker.json'}")) == 1


def test_the_command_is_a_gate(tmp_path: Path) -> None:
    """`make audit DB=...` over every lock of the repository, with a zip as osv.dev offers it."""
    program = [sys.executable, str(ROOT / "tools" / "audit.py"), "--db"]
    [numpy] = [one for one in of_lock(ROOT / "base-images/plain-cu13/requirements.lock") if one.name == "numpy"]
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as made:
        made.writestr("1.json", json.dumps(advisory(events=[{"fixed": "999"}])))
    done = subprocess.run([*program, str(tmp_path / "all.zip")], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"numpy {numpy.version}: GHSA-1 (critical), BLOCKS: fixed in 999" in done.stdout
    missing = subprocess.run([*program, str(tmp_path / "missing")], capture_output=True, text=True, check=False)
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
    assert missing.stderr.startswith("audit: ")


def test_a_row_whose_time_is_over_is_not_built(capsys: pytest.CaptureFixture[str]) -> None:
    """A warning before, a refusal after; a retired row has nothing to refuse."""
    row = find_row(CATALOG, "plain-cu13") | {"end_of_life": "2026-12-01"}
    check.check_rows(CATALOG, [row], TODAY)
    assert "plain-cu13: support ends on 2026-12-01 (8 days left)" in capsys.readouterr().err
    check.check_rows(CATALOG, [row], date(2026, 12, 1))
    with pytest.raises(ImageError, match="plain-cu13: end_of_life 2026-12-01 has passed: set state: retired"):
        check.check_rows(CATALOG, [row], date(2026, 12, 2))
    check.check_rows(CATALOG, [row | {"state": "retired"}], date(2026, 12, 2))
    capsys.readouterr()
    check.check_rows(CATALOG, [row | {"end_of_life": "2028-12-01"}], TODAY)
    assert capsys.readouterr().err == ""


def test_check_catalog_looks_at_the_day(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row | {"end_of_life": "2020-01-01", "since": "2019-01-01"} for row in CATALOG["images"]]
    with pytest.raises(ImageError, match="2020-01-01 has passed"):
        check.check(CATALOG | {"images": rows}, argparse.Namespace(image=""))
